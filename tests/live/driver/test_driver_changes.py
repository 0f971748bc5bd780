"""An adapter may say which jobs have changed: then only those are looked at, and all comes out as if all had been."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from fake_slurm import PREEMPTS
from plain import RUNS, WAITS, key_of
from worlds import POOL, PlainWorld

from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.state.stage import Phase


def one_thing(world: PlainWorld, random: Random) -> None:
    """Something happens, or goes wrong."""
    them = world.them
    waiting = [key for key, job in them.jobs.items() if job.state == WAITS]
    running = [key for key, job in them.jobs.items() if job.state == RUNS]
    some = random.choice([*waiting, *running, ""])
    match random.choice(
        ["come", "come", "come", "cancel", "evict", "bind", "node", "nodes", "refuse", "stuck", "crash", "silence",
         "forget", "problem", "limit", "begin"]
    ):  # fmt: skip
        case "come":
            drive = random.choice([0, 0, 200]) if world.options[1] else 0
            them.submit(
                random.choice([1, 1, 2]), random.choice([1, 2, 4]), run_s=random.choice([0.5, 2, 6]), drive_mb=drive,
                problem=random.choice(["", "", "", "not yet"]), ours=random.random() < 0.9,
            )  # fmt: skip
        case "cancel" if some:
            them.end(some, "cancelled")
        case "evict" if some:
            them.evict(some, bound=random.random() < 0.5)
        case "bind" if some in waiting:
            them.bind(some, ["n1"])
        case "node":
            them.mark(random.choice(["n1", "n2", "n3"]), random.choice([True, False]))
        case "nodes":
            them.mark("n9", random.choice([True, None] if "n9" in them.nodes else [True]))
        case "refuse":
            them.refuse.update(dict.fromkeys(waiting[:4], 4))
        case "stuck" if some:
            (them.stuck.discard if some in them.stuck else them.stuck.add)(some)
        case "crash":
            them.save()
            them.crash(random.choice([0, 400_000]))
        case "silence":
            them.unreachable = random.choice([0, 1])
        case "forget" if some in waiting:
            del them.jobs[some]
            them.version += 1
        case "problem" if some in waiting:
            them.jobs[some].problem = "" if them.jobs[some].problem else "not now"
            them.version += 1
        case "limit" if some:
            them.jobs[some].limit_s += 5
            them.version += 1
        case "begin":
            world.driver = world.make()
        case _:
            pass


def story(seed: int, tells: bool, **options: Any) -> list[str]:
    world, random = PlainWorld(tells=tells, timeout_s=3, **options), Random(seed)
    for _ in range(250):
        if random.random() < 0.5:
            one_thing(world, random)
        try:
            world.go(us=random.choice([50_000, 200_000, 700_000]))
        except UnreachableError:
            world.them.tick(200_000)
    assert len(world.journal.lines) > 50
    return world.journal.lines


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [{}, {"pools": POOL}, {"policy": "preempts", "pools": POOL}, {"policy": "conservative"}],
    ids=["easy", "drives", "preempts", "conservative"],
)
def test_what_is_written_is_the_same_whether_or_not_it_is_said_which_jobs_changed(
    options: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(PREEMPTS)
    if options.get("policy") == "preempts":
        options = {**options, "policy": f"{tmp_path}/mine.py:Preempts"}
    said, unsaid = story(seed, True, **options), story(seed, False, **options)
    for number, (one, other) in enumerate(zip(said, unsaid, strict=True)):
        assert one == other, number


def test_jobs_that_have_not_changed_are_not_asked_about_again() -> None:
    world = PlainWorld(tells=True, nodes=2)
    for _ in range(200):
        world.them.submit(nodes=2, cores=4, run_s=1000, limit_s=2000)
    world.go(5)
    adapter: Any = world.driver.orchestrator
    adapter.asked_about.clear()
    world.them.submit(nodes=1, cores=1)
    world.go(3)
    assert set(adapter.asked_about) == {key_of(201)}
    world.them.mark("n2", False)  # other nodes make no job ask otherwise here
    world.go(3)
    assert set(adapter.asked_about) == {key_of(201)}


def test_all_jobs_whose_time_has_come_are_asked_about_in_one_turn() -> None:
    world = PlainWorld(tells=True)
    adapter: Any = world.driver.orchestrator
    adapter._refused = {key_of(number): 2_000_000 for number in (1, 2, 3)}
    for _ in range(3):
        world.them.submit(run_s=100, limit_s=200)
    world.go()
    for _ in range(3):  # all is read again, for others
        world.them.submit(problem="not now")
        world.go()
    while world.phase(key_of(1)) == Phase.ASIDE:
        world.go()
    assert {world.phase(key_of(number)) for number in (1, 2, 3)} == {world.phase(key_of(1))}
