"""The lines of ``unrack explain --round``: one round of a policy that places many jobs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unrack.cli.options import shortened
from unrack.errors import InputError
from unrack.facts import counted, some
from unrack.units import SECOND_US, time_us

if TYPE_CHECKING:
    from unrack.policy.rounds import JobStory, NetworkStory, PromiseStory, RoundStory

BUSIEST = "busiest"
"""In place of a time: the round that started most jobs."""


def round_time_us(text: str) -> int | None:
    """The time that ``--round`` names, µs; ``None``: the busiest round. Anything else is an InputError."""
    if text == BUSIEST:
        return None
    try:
        return time_us(text)
    except ValueError:
        want = f"a time since the start of the trace, such as 300, '30 s' or '1h 30min', or {BUSIEST}"
        raise InputError("--round", repr(text), want) from None


def round_table(story: RoundStory) -> dict[str, Any]:
    """The same for programs."""
    return {
        "round": story.number,
        **story.numbers._asdict(),
        "promise": None if story.promise is None else story.promise._asdict(),
        "jobs_of_round": [job._asdict() for job in story.jobs],
        "networks_solved": [
            {
                **network._asdict(),
                "classes": [one._asdict() for one in network.classes],
                "groups": [group._asdict() for group in network.groups],
                "arcs": [arc._asdict() for arc in network.arcs],
            }
            for network in story.networks
        ],
    }


def round_lines(story: RoundStory, policy: str, most: int | None) -> list[str]:
    """All lines on a round; ``most``: how many of a list are printed, the first and the last, ``None``: all."""
    from unrack.policy.rounds import UNIT

    numbers = story.numbers
    started = [job for job in story.jobs if job.place]
    left = [job for job in story.jobs if not job.place]
    networks, waited = f"{numbers.networks} network{_s(numbers.networks)}", counted(numbers.jobs, "job")
    placed, waiting = numbers.cost_placed / UNIT, numbers.cost_waiting / UNIT
    lines = [
        f"round {story.number} at {numbers.at_us / SECOND_US:,.0f} s under {policy}",
        f"  {waited} waited, {numbers.tried:,} took part in {networks}, {numbers.placed:,} started",
        f"  cost        {placed + waiting:.4g}: {placed:.4g} of the jobs that started, {waiting:.4g} of the others",
    ]
    if story.promise is not None:
        lines += _promise_lines(story.promise)
    if story.networks:
        lines.append("  networks")
        lines += shortened([_network_line(i, network) for i, network in enumerate(story.networks, start=1)], most)
    for title, jobs in (("started", started), ("left waiting", left)):
        if jobs:
            lines.append(f"  {title}")
            lines += shortened([_job_line(job) for job in jobs], most)
    return lines


def _network_line(number: int, network: NetworkStory) -> str:
    subtasks = sum(one.subtasks for one in network.classes)
    classes = f"{subtasks:,} sub-task{_s(subtasks)} in {len(network.classes)} class{_s(len(network.classes), 'es')}"
    groups = f", in {len(network.groups)} group{_s(len(network.groups))}" if network.groups else ""
    hosts = f"{sum(group.hosts for group in network.groups)} of {network.hosts} hosts with room{groups}"
    forced = "; nobody may wait" if network.forced else ""
    return (
        f"    {number:>3}  {network.resource}, attempt {network.attempt}: {classes}; {hosts}; "
        f"{len(network.arcs):,} arcs; {network.placed:,} placed, {network.waiting:,} "
        f"wait{_s(network.waiting, '', 's')}; cost {network.cost:.4g}{forced}"
    )


def _s(count: int, several: str = "s", one: str = "") -> str:
    """The ending of a word after a number."""
    return one if count == 1 else several


def _job_line(job: JobStory) -> str:
    cost = "" if job.cost is None else f"; cost {job.cost:.4g}"
    numbers = some(list(map(str, job.networks)), 4)
    where = "" if not job.networks else f" [network{_s(len(job.networks))} {numbers}]"
    return f"    job {job.job}, {job.asks}: {job.place or job.reason}{cost}{where}"


def _promise_lines(promise: PromiseStory) -> list[str]:
    when = "a time that is not known" if promise.start_us is None else f"{promise.start_us / SECOND_US:,.0f} s"
    held = "nobody is held back for it"
    if promise.held_back:
        listed = ", ".join(promise.held_back[:5]) + (" …" if len(promise.held_back) > 5 else "")
        held = f"{counted(len(promise.held_back), 'job')} may not take what it needs then: {listed}"
    return [f"  promised    job {promise.job} is to start at {when} at the latest; {held}"]
