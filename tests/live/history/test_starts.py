"""The table of starts: every start once, whatever became of it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from eventful import MEDDLING, Eventful, meddled
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError
from unrack.live.driver.history.starts import COLUMNS, starts_frame
from unrack.live.driver.history.told import Fold
from unrack.slurm_text.hostlists import compress, expand


def test_a_start_is_told_with_its_steps_and_its_nodes(tmp_path: Path) -> None:
    world = Eventful(tmp_path)
    number = world.slurm.submit(nodes=2, cores=3, run_s=2)
    past = world.until_done()
    frame = starts_frame(past.told, "slurm", compress)
    assert [name.replace("slurm_", "their_") for name in frame.columns] == list(COLUMNS)
    row = frame.row(0, named=True)
    assert (row["job"], row["ours"], row["became"], row["why"]) == (str(number), True, "ended", "COMPLETED")
    assert row["came_s"] <= row["decided_s"] <= row["released_s"] <= row["started_s"] < row["ended_s"] <= row["freed_s"]
    assert expand(row["planned_nodes"]) == expand(row["ran_on"]) == list(world.slurm.jobs[number].starts[0][1])


def test_starts_that_failed_and_jobs_of_others_are_in_the_table(tmp_path: Path) -> None:
    world = Eventful(tmp_path, nodes=2)
    refused = world.slurm.submit()
    world.slurm.refuse[refused] = 1
    world.go(3)
    other = world.slurm.submit(cores=2, partition="other", priority=5)
    world.slurm.schedule()
    cancelled = world.slurm.submit(nodes=2, cores=4)
    world.go(2)
    world.slurm.end(cancelled, "CANCELLED")
    frame = starts_frame(world.until_done().told, "slurm", compress)
    of = {key[0]: part for key, part in frame.partition_by("job", as_dict=True, maintain_order=True).items()}
    assert of[str(refused)]["became"].to_list() == ["not started", "ended"]
    assert of[str(other)].select("ours", "decided_s", "became").row(0) == (False, None, "ended")
    assert of[str(cancelled)].select("attempt", "started_s", "became").row(0) == (None, None, "left")


@draws(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(["easy", "conservative"]))
def test_nodes_are_held_by_no_more_than_they_have_and_every_run_is_told(
    tmp_path_factory: pytest.TempPathFactory, seed: int, policy: str
) -> None:
    past = meddled(tmp_path_factory.mktemp("state"), policy, seed, MEDDLING, jobs=15)
    moves: list[tuple[int, int, str, int]] = []
    for stay in past.told.stays:
        for one in stay.attempts if not stay.short else ():  # it took a place that another start had until it gave up
            assert one.freed_us >= one.decided_us
            for name, _, cores, _ in one.lease["rows"]:
                moves += [(one.freed_us, 0, name, -cores), (one.decided_us, 1, name, cores)]
    held: dict[str, int] = {}
    for _, _, name, cores in sorted(moves):
        held[name] = held.get(name, 0) + cores
        assert 0 <= held[name] <= 4, f"{name} holds {held[name]} cores of 4"
    assert set(held.values()) <= {0}
    frame = starts_frame(past.told, "slurm", compress).filter(pl.col("ours") & (pl.col("became") == "ended"))
    assert set(frame["job"]) == {entry.key for entry in past.jobs}


@pytest.mark.parametrize("record", [{"k": "turn", "now": 1}, {"k": "begin", "now": 0, "why": "x"}])
def test_a_journal_that_cannot_be_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Fold().take(record)
