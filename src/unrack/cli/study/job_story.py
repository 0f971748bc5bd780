"""The lines of ``unrack explain``: one job's life."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from unrack.cli.options import shortened
from unrack.errors import InputError
from unrack.facts import counted, some
from unrack.units import SECOND_US, seconds_text, time_us

if TYPE_CHECKING:
    from unrack.policy.around import JobStory, NetworkStory, PromiseStory, RoundStory
    from unrack.sim.explained.job import Change, ExplainedAttempt, HeldSince, Story
    from unrack.sim.recorder import MemoryStop
    from unrack.workload.job import Demand


Clock = Callable[[int], str]
"""A time, µs, in words."""

OUT_OF_MEMORY, DEADLOCK = "more than it asked for", "wait for each other"
"""What the scheduler says of jobs that use more than they may, and of those that cannot go on."""


def job_lines(story: Story, policy: str, most: int | None, header: Mapping[str, str] | None = None) -> list[str]:
    """All lines on a job; ``most``: how many of a list are printed, ``None``: all; ``header``: that of its log."""
    from unrack.workload.account import local_clock

    job, demand = story.job, story.job.demand

    def clock(time_us: int) -> str:
        local = local_clock([time_us], header or {})
        date = "" if local is None else f"{local[0].dt.strftime('%Y-%m-%d %H:%M:%S')[0]} = "
        return f"{date}{time_us / SECOND_US:,.0f} s"

    def after(time_us: int) -> str:
        return f"+{seconds_text((time_us - job.submit_us) / SECOND_US)}"

    memory = f", {demand.memory_mb:,} MB" if demand.memory_mb else ""
    owner = "".join([f" of user {job.user}" if job.user else "", f" ({job.app})" if job.app else ""])
    devices = devices_text({kind: amounts for kind, amounts in demand.devices.items() if any(amounts.values())})
    due = [] if job.deadline_us is None else [f"  due         {clock(job.deadline_us)} ({after(job.deadline_us)})"]
    came = "" if story.came_us == job.submit_us else f", came {after(story.came_us)}"
    lines = [
        f"job {job.id}{owner} under {policy}",
        f"  asks for    {demand.tasks} task(s) of {demand.cores} core(s){memory}{devices}, "
        f"for {seconds_text(job.request_us / SECOND_US)}",
        *_of_tiers(demand),
        *due,
        f"  submitted   {clock(job.submit_us)}{came}, {story.ahead} job(s) ahead; "
        f"{story.free_cores} cores left free then",
    ]
    if story.reason is not None and not story.attempts:
        return [*lines, f"  never ran   {story.reason}"]
    if story.spells:
        lines.append("  waited for")
        long = [seconds_text((spell.to_us - spell.from_us) / SECOND_US) for spell in story.spells]
        waits = zip(story.spells, long, strict=True)
        lines += shortened([f"    {after(one.from_us):>18}  {took:>14}  {one.reason}" for one, took in waits], most)
    if story.room_us is not None:
        lines.append(f"  had room    {after(story.room_us)}: it fitted then, but was not allowed to go")
    if story.before:
        lines.append(f"  before it   {story.before} job(s) that came earlier started while it waited")
    if story.passed:
        count = len({one.job.id for one in story.passed})
        lines.append(f"  passed by   {count} job(s) that came later started while it waited")
        for passed in story.passed[:most]:
            asked = passed.job.demand
            lines.append(
                f"    {after(passed.start_us):>18}  job {passed.job.id}: {asked.tasks * asked.cores} core(s) for "
                f"{seconds_text(passed.job.request_us / SECOND_US)}"
            )
        if most is not None and len(story.passed) > most:
            lines.append(f"    … {len(story.passed) - most} more (--all)")
    lines += [line for attempt in story.attempts for line in attempt_lines(story, attempt, clock, after, most)]
    whole, given = (seconds_text(time / SECOND_US) for time in (story.job.request_us, story.limit_us))
    if 0 < story.limit_us < story.job.request_us:
        lines.append(f"  its limit   was shortened from {whole} to {given}, so that it could start")
    for one in story.extensions:
        more = seconds_text((one.until_us - one.at_us) / SECOND_US)
        lines.append(f"  its limit   was used up at {after(one.at_us)}; it got {more} more, as that delayed no job")
    if story.cut:
        lines.append("  its limit   was used up with work left, and it was stopped")
    if story.blocked_node_us:
        lines.append(f"  stood still {node_hours(story.blocked_node_us)}, as memory that it needed was not to be had")
    return lines


def devices_text(devices: Mapping[str, Mapping[str, int]]) -> str:
    """What is asked of devices, each kind after a comma; power in W."""
    return "".join(
        f", {amounts['milliwatts'] / 1000:,.6g} W" if kind == "power"
        else f", {kind} {', '.join(f'{name} {amount:,}' for name, amount in amounts.items())}"
        for kind, amounts in devices.items()
    )  # fmt: skip


def _of_tiers(demand: Demand) -> list[str]:
    far = "" if demand.ceiling_mb is None else f"at most {demand.ceiling_mb:,} weighted MB that are not"
    parts = [
        f"at least {demand.local_mb:,} MB local" if demand.local_mb else "",
        far if demand.local_mb else far.replace("that are not", "not local"),
        f"nothing of {', '.join(demand.forbidden)}" if demand.forbidden else "",
        f"no {demand.spread} that others of {demand.group} use" if demand.spread else "",
    ]
    said = ", ".join(part for part in parts if part)
    return [f"  with        {said}"] if said else []


def attempt_lines(story: Story, attempt: ExplainedAttempt, clock: Clock, after: Clock, most: int | None) -> list[str]:
    """All lines on an attempt of a job.

    ``clock``, ``after``: words for a time, on the trace's clock, and since the job was submitted; ``most``: how many
    changes are told, the first and the last, ``None``: all.
    """
    lines = [f"  started     {clock(attempt.start_us)} ({after(attempt.start_us)}) on node(s) {_ranges(attempt.nodes)}"]
    lines += [f"  with        {held}" for held in (*attempt.devices, *filter(None, [attempt.memory]))]
    if any(change.change_mb for change in attempt.changes) or attempt.stopped is not None:
        lines.append(f"  holds       {_amount(attempt, attempt.local_mb + attempt.borrowed_mb, False)}")
    told = [
        f"  {word:<11} {clock(change.at_us)} ({after(change.at_us)}) {what}"
        for word, change, what in _changes(attempt, most is None)
    ]
    lines += told if most is None or len(told) <= most else _shortened(told, attempt, most)
    ran = seconds_text((attempt.end_us - attempt.start_us) / SECOND_US)
    verdict = _verdict(story, attempt.end_us, attempt.outcome)
    lines.append(f"  ended       {clock(attempt.end_us)} after {ran}: {attempt.outcome}{verdict}")
    lines += [f"  because     {attempt.failure}"] if attempt.failure else []
    if attempt.preempted is not None and attempt.preempted.reason.what:
        lost = attempt.preempted.lost_us
        left = f": {seconds_text(lost / SECOND_US)} of work are lost" if lost else ""
        lines.append(f"  because     it was preempted {attempt.preempted.reason.what}{left}")
    if attempt.stopped is not None:
        nodes = sum(last - first + 1 for first, last in (attempt.changes or (attempt,))[-1].nodes)
        lines += _why(story, attempt.stopped, nodes)
    return lines


def node_hours(node_us: int) -> str:
    """Words for nodes times time (µs)."""
    return f"{node_us / 3.6e9:,.4g} node-hours"


def _changes(attempt: ExplainedAttempt, whole: bool) -> list[tuple[str, Change, str]]:
    """What happened at each change: a verb, the change, and the rest of the sentence; ``whole``: with all lenders."""
    found = []
    held: list[HeldSince] = [attempt, *attempt.changes]
    for before, now in zip(held, attempt.changes, strict=False):
        total, by = now.local_mb + now.borrowed_mb, abs(now.change_mb)
        grew = "grew" if now.change_mb > 0 else "shrank"
        if now.suspended:
            found.append(("suspended", now, f"{now.suspended}: it keeps all but its cores"))
        elif before.cores == 0 and now.cores:
            found.append(("went on", now, f"with {now.cores} core(s)"))
        elif (before.cores, before.nodes) != (now.cores, now.nodes):
            what = f"to {now.cores} core(s) on node(s) {_ranges(now.nodes)}" + (f", {now.memory}" if now.memory else "")
            what += f"; memory {grew} by {by:,} MB to {_amount(now, total, False)}" if by else ""
            found.append(("changed", now, what))
        elif by:
            found.append((grew, now, f"by {by:,} MB to {_amount(now, total, whole)}"))
        elif before.local_mb != now.local_mb:
            way = "back to its nodes" if now.local_mb > before.local_mb else "to other nodes"
            moved = abs(now.local_mb - before.local_mb)
            found.append(("moved", now, f"{moved:,} MB {way}, of {_amount(now, total, whole)}"))
        else:
            found.append(("changed", now, f"lenders, of {_amount(now, total, True)}"))
    return found


def _amount(held: HeldSince, total: int, whole: bool) -> str:
    if not held.borrowed_mb:
        return f"{total:,} MB, all on its nodes"
    words = f"{total:,} MB: {held.local_mb:,} MB on its nodes, {held.borrowed_mb:,} MB borrowed"
    return f"{words} ({held.memory.removeprefix('borrowed ')})" if whole else words


def _shortened(told: list[str], attempt: ExplainedAttempt, most: int) -> list[str]:
    first, last = most // 2, most - most // 2
    left = [change.change_mb for change in attempt.changes[first : len(told) - last]]
    grown, shrunk = sum(mb for mb in left if mb > 0), -sum(mb for mb in left if mb < 0)
    words = f"    … {len(left)} more, in which it grew by {grown:,} MB and shrank by {shrunk:,} MB (--all)"
    return [*told[:first], words, *told[-last:]]


def _why(story: Story, stopped: MemoryStop, nodes: int) -> list[str]:
    lacked, said = f"{stopped.lacks_mb:,} MB more than it held", stopped.reason.what
    if OUT_OF_MEMORY in said:
        words = f"it needed {lacked}, and had asked for no more: it is not run again"
    elif DEADLOCK in said:
        words = f"every job that ran stood still for lack of memory: this one, the last to start, needed {lacked}"
    elif stopped.grower == str(story.job.id):
        words = f"it needed {lacked}, and could not get that"
    else:
        words = f"job {stopped.grower} needed {lacked}, and this one had to make room"
    lost = "nothing: all of its work had been kept"
    if stopped.lost_us:
        lost = f"{seconds_text(stopped.lost_us / SECOND_US)} of work: {node_hours(nodes * stopped.lost_us)}"
    return [f"  because     {words}", f"  lost        {lost}"]


def _ranges(nodes: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in nodes)


def _verdict(story: Story, end_us: int, outcome: str) -> str:
    deadline = story.job.deadline_us
    if deadline is None or outcome != "finished":
        return ""
    late = seconds_text((end_us - deadline) / SECOND_US)
    return ", in time" if end_us <= deadline else f", {late} late"


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
    from unrack.policy.around import UNIT

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
    forced = "; no job may wait" if network.forced else ""
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
    held = "no job is held back for it"
    if promise.held_back:
        listed = ", ".join(promise.held_back[:5]) + (" …" if len(promise.held_back) > 5 else "")
        held = f"{counted(len(promise.held_back), 'job')} may not take what it needs then: {listed}"
    return [f"  promised    job {promise.job} is to start at {when} at the latest; {held}"]
