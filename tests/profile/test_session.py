"""The order of runs, and when they stop: enough, too much drift, a level that was not held, an interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic import NONE, application, bench, measured, shaped

from unrack.errors import InputError, RunError
from unrack.profile.running.records import RUNS, Records, Refused, Run, Writer, read_records, table_of
from unrack.profile.running.session import State, run_session

LEVELS = {2, 4, 6, 8, 10}


def levels(records: Records, block: int) -> list[object]:
    return [run.level for run in records.runs if run.block == block]


def test_each_block_has_every_level_once_with_controls_between() -> None:
    records = measured(application(), bench(shaped("line"), 0.001)).records
    assert {run.block for run in records.runs} == set(range(5))
    for block in range(5):
        order = levels(records, block)
        assert order[::2] == [None] * 6
        assert set(order[1::2]) == LEVELS
    assert len({tuple(levels(records, block)) for block in range(5)}) > 1


def test_the_order_is_that_of_the_seed() -> None:
    def order(seed: int) -> list[object]:
        return [run.level for run in measured(application(f"seed = {seed}\n"), bench(shaped("line"))).records.runs]

    assert order(1) == order(1) != order(2)


def test_a_noisy_level_is_repeated_until_its_interval_is_narrow_or_its_runs_are_used_up() -> None:
    quiet = measured(application(), bench(shaped("line"), 0.001)).records
    noisy = measured(application("drift = 0.5\n"), bench(shaped("line"), 0.03)).records
    hopeless = measured(application("drift = 0.9\nwidth = 0.001\n"), bench(shaped("line"), 0.03)).records
    assert len(quiet.runs) == 5 * 11 < len(noisy.runs) < len(hopeless.runs) == 20 * 11


@pytest.mark.parametrize("when", ["between blocks", "within a block"])
def test_controls_that_drift_are_refused_and_their_block_does_not_count(when: str) -> None:
    def drift(run: int) -> float:
        return 1.0 if run < 33 + 5 * (when != "between blocks") else 1.12

    kept: list[Run | Refused] = []
    with pytest.raises(RunError, match=r"axis command, block 3: controls drifted by \d+\.\d%, and 5% are allowed"):
        measured(application(), bench(shaped("line"), 0.001, drift=drift), kept)
    assert isinstance(kept[-1], Refused)
    runs = tuple(one for one in kept if isinstance(one, Run))
    assert {run.block for run in Records(runs, (kept[-1],)).of("command")} == {0, 1, 2}


def test_a_session_goes_on_after_a_drift_that_is_over() -> None:
    kept: list[Run | Refused] = []
    with pytest.raises(RunError, match="drifted"):
        measured(application(), bench(shaped("line"), 0.001, drift=lambda run: 1.2 if run > 33 else 1.0), kept)
    before = Records(tuple(one for one in kept if isinstance(one, Run)), (kept[-1],))  # type: ignore[arg-type]
    records = run_session(application(), before, bench(shaped("line"), 0.001, seed=7), kept.append)
    assert {run.block for run in records.of("command")} == {0, 1, 2, 4, 5}


def test_a_level_that_is_missed_twice_ends_the_runs() -> None:
    kept: list[Run | Refused] = []
    with pytest.raises(RunError, match=r"axis command, level 8: not held, 2 times: 8 of 8 \(known\)"):
        measured(application(), bench(shaped("line"), held=lambda level: level != 8), kept)
    assert sum(isinstance(one, Run) and not one.held for one in kept) == 2


def test_a_drift_is_refused_also_if_the_sitting_ended_before_it_could_be() -> None:
    steady = measured(application(), bench(shaped("line"), 0.001)).records
    slower = tuple(replace(run, times_s=(run.time_s * (1.2 if run.block == 4 else 1),)) for run in steady.runs)
    kept: list[Run | Refused] = []
    records = run_session(application(), Records(slower, ()), bench(shaped("line"), 0.001), kept.append)
    assert [one.block for one in records.refused] == [4]
    assert {run.block for run in records.of("command")} == {0, 1, 2, 3, 5}


class Stopped(Exception):  # noqa: N818
    pass


def stopping(after: int, kept: list[Run | Refused]) -> Callable[[Run | Refused], None]:
    def add(record: Run | Refused) -> None:
        if len(kept) == after:
            raise Stopped
        kept.append(record)

    return add


@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 10, 11, 12, 30, 54])
def test_an_interrupted_session_goes_on_where_it_was(after: int) -> None:
    kept: list[Run | Refused] = []
    with pytest.raises(Stopped):
        run_session(application(), NONE, bench(shaped("line"), 0.001), stopping(after, kept))
    before = Records(tuple(one for one in kept if isinstance(one, Run)), ())
    records = run_session(application(), before, bench(shaped("line"), 0.001, 1), kept.append)
    assert records.runs[:after] == before.runs
    assert [run.sitting for run in records.runs] == [0] * after + [int(after > 0)] * (len(records.runs) - after)
    whole = measured(application(), bench(shaped("line"), 0.001)).records
    assert [run.level for run in records.runs if run.level] == [run.level for run in whole.runs if run.level]
    for level in LEVELS:
        assert sum(run.level == level for run in records.runs) >= 5
    for i, run in enumerate(records.runs):  # each has a control of its own sitting before it
        if run.level is not None:
            assert (records.runs[i - 1].level, records.runs[i - 1].sitting) == (None, run.sitting)


def test_a_session_that_is_done_runs_nothing() -> None:
    done = measured(application(), bench(shaped("line"), 0.001)).records

    def never(axis: object) -> object:
        raise AssertionError

    assert run_session(application(), done, never, [].append) == done  # type: ignore[arg-type]


def test_it_tells_how_far_it_is() -> None:
    told: list[State] = []
    run_session(application(), NONE, bench(shaped("line"), 0.001), lambda _: None, told.append)
    assert [one.runs for one in told] == list(range(55))
    assert {one.level for one in told} == {"alone", "2", "4", "6", "8", "10"}
    assert told[0].widest == float("inf") > told[-1].widest > 0


def a_run(level: object = 2.0) -> Run:
    return Run("a", 0, 0, 0, level, (1.5, 2.5), 1.0, 2.0, True, "own bytes", 0.5, 3, 0.1, "2026-01-01")  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [None, 2.0, (2, 4), "spread"])
def test_records_are_read_back_as_they_were_written(tmp_path: Path, level: object) -> None:
    writer = Writer(tmp_path / RUNS)
    writer.add(a_run(level))
    writer.add(Refused("a", 0, "why"))
    writer.close()
    assert read_records(tmp_path) == Records((a_run(level),), (Refused("a", 0, "why"),))
    assert a_run(level).time_s == 2.0
    assert table_of([a_run(level)])["time_s"].to_list() == [1.5, 2.5]


def test_a_line_that_was_cut_off_is_dropped_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / RUNS
    writer = Writer(path)
    writer.add(a_run())
    writer.close()
    path.write_bytes(path.read_bytes() + b'{"record": "run", "axis": "a", "blo')
    assert len(read_records(tmp_path).runs) == 1
    writer = Writer(path)
    writer.add(a_run(None))
    writer.close()
    assert [run.level for run in read_records(tmp_path).runs] == [2.0, None]


@pytest.mark.parametrize(
    "line",
    ["", "7", "null", "{}", '{"record": "run"}', '{"record": "x"}', '{"record": "refused", "axis": 1, "b": 2}', "\x00"],
)
def test_a_line_that_is_no_run_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / RUNS).write_text(f"{line}\n")
    with pytest.raises(InputError, match=r"line 1: got .*, wanted a run"):
        read_records(tmp_path)


def test_a_time_of_nothing_is_refused(tmp_path: Path) -> None:
    writer = Writer(tmp_path / RUNS)
    writer.add(a_run())
    writer.close()
    (tmp_path / RUNS).write_text((tmp_path / RUNS).read_text().replace("1.5", "0.0"))
    with pytest.raises(InputError, match="wanted a run"):
        read_records(tmp_path)


def test_a_file_of_runs_has_one_writer(tmp_path: Path) -> None:
    writer = Writer(tmp_path / RUNS)
    with pytest.raises(InputError, match="a file that another run writes"):
        Writer(tmp_path / RUNS)
    writer.add(a_run())
    writer.close()
    Writer(tmp_path / RUNS).close()
    assert len(read_records(tmp_path).runs) == 1


def test_no_file_of_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"runs\.jsonl: got No such file"):
        read_records(tmp_path)
    assert table_of([]).is_empty()
