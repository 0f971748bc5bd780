"""Models of devices and contention for memory in one run: how their speeds combine, and that work adds up."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import lending as plain
import numpy as np
import polars as pl
import pytest
from both_slowdowns import BOTH, MODEL, SETTINGS, TABLE, cases
from hypothesis import given
from hypothesis import strategies as st
from tries import draws
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, StudyError
from unrack.ledger.lease import Lease
from unrack.sim import simulate as simulating
from unrack.sim.kernel import Kernel
from unrack.sim.result import Result
from unrack.slowdown.combined import Together, combined, make_together
from unrack.slowdown.memory.speeds import MemorySpeeds
from unrack.study.grid import load_study
from unrack.study.results.record import read_record
from unrack.study.runner import run_study
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

HOW = list(Together)
SPEEDS = st.floats(0.01, 4.0)


# --- the formula ------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4))
def test_delays_add_the_slowest_counts_or_speeds_multiply(speeds: list[float]) -> None:
    columns = [np.array([speed]) for speed in speeds]
    found = {how: float(combined(columns, how)[0]) for how in HOW}
    assert found[Together.ADD] == pytest.approx(1 / (1 + sum(1 / speed - 1 for speed in speeds)))
    assert found[Together.MIN] == min(speeds)
    assert found[Together.PRODUCT] == pytest.approx(np.prod(speeds))
    assert found[Together.PRODUCT] <= found[Together.ADD] * (1 + 1e-12) <= found[Together.MIN] * (1 + 1e-9)


@given(SPEEDS, st.integers(0, 3), st.sampled_from([Together.ADD, Together.PRODUCT]))
def test_a_speed_that_nothing_else_changes_stays_to_the_bit(speed: float, others: int, how: Together) -> None:
    assert combined([np.array([speed]), *[np.ones(1)] * others], how).tolist() == [speed]


@given(st.lists(SPEEDS, min_size=2, max_size=5), st.sampled_from(HOW))
def test_a_combined_speed_is_above_0_in_any_order_and_falls_with_each_part(speeds: list[float], how: Together) -> None:
    def of(parts: list[float]) -> float:
        return float(combined([np.array([part]) for part in parts], how)[0])

    assert of(speeds) > 0
    assert of(speeds[::-1]) == pytest.approx(of(speeds))
    assert of([speeds[0] * 0.9, *speeds[1:]]) <= of(speeds) * (1 + 1e-12)


def test_an_unknown_way_is_refused() -> None:
    assert make_together(None) == Together.ADD
    with pytest.raises(InputError, match=r"slowdowns: got 'max', wanted one of 'add', 'min', 'product'"):
        make_together("max")


# --- random worlds ----------------------------------------------------------------------------------------------------


def played(case: tuple[Cluster, Workload], how: str | None = None, **world: Any) -> Result:
    physics = unrack.World(**{"slowdowns": how, "models": [MODEL], "contention": SETTINGS, **world})
    return unrack.simulate(*case, BOTH, world=physics)


def held_at(result: Result, time_us: int) -> dict[int, tuple[Lease, int]]:
    """Job → what it holds from a moment on, and when it begins to work; from the log alone."""
    log = result.log
    found = {}
    for i in np.flatnonzero((log.attempt_start_us <= time_us) & (time_us < log.attempt_end_us)).tolist():
        span = int(log.attempt_spans[i])
        rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]].astype(np.int64)
        loans = log.loans[log.span_loans[span] : log.span_loans[span + 1]]
        shares = tuple(log.shares[s] for s in np.flatnonzero(log.share_span == span))
        found[int(log.attempt_job[i])] = (
            Lease(int(log.attempt_job[i]), rows, loans, shares),
            int(log.attempt_start_us[i]),
        )
    return found


def speeds_at(result: Result, time_us: int) -> tuple[dict[int, float], dict[int, float]]:
    """Each running job's speed by devices and by memory alone, worked out from who holds what."""
    cluster, jobs = result.log.cluster, result.log.jobs
    leases = {job: lease for job, (lease, _) in held_at(result, time_us).items()}
    memory = plain.speeds_of(leases, SETTINGS, cluster, jobs)
    devices = dict.fromkeys(leases, 1.0)
    for job, lease in leases.items():
        for share in lease.shares:
            users = sum(share.devices == other.devices for held in leases.values() for other in held.shares)
            name = jobs.app_names[jobs.app[job]] if jobs.app[job] >= 0 else ""
            time = TABLE[min(len(share.devices), 2) - 1, users - 1] if name == "5" else 1.0
            devices[job] = 1 / (time * (1 + cluster.devices.pools[0].overhead))
    return devices, memory


def formula(one: float, two: float, how: str) -> float:
    if how == "product":
        return one * two
    if how == "min" or (one == 1 and two == 1):
        return min(one, two)
    return 1 / (1 / one + 1 / two - 1) if one <= 1 or two <= 1 else one * two


def begins_us(result: Result) -> dict[int, int]:
    """When each job begins to work: those on a composition wait until its first one's latency is over."""
    log, latency = result.log, result.log.cluster.devices.pools[0].attach_us
    first: dict[int, int] = {}
    for at, group in zip(log.share_attempt.tolist(), log.share_group.tolist(), strict=True):
        first[group] = min(first.get(group, 2**62), int(log.attempt_start_us[at]))
    found = {int(job): int(start) for job, start in zip(log.attempt_job, log.attempt_start_us, strict=True)}
    for at, group in zip(log.share_attempt.tolist(), log.share_group.tolist(), strict=True):
        job = int(log.attempt_job[at])
        found[job] = max(found[job], first[group] + latency)
    return found


@pytest.mark.parametrize("how", ["add", "min", "product"])
@draws(15)
@given(case=cases())
def test_the_work_of_every_job_is_its_combined_speed_over_its_time(case: tuple[Cluster, Workload], how: str) -> None:
    """An audit that takes nothing from the engine but its log, and each speed from the twin of its cause."""
    result = played(case, how)
    log, begins = result.log, begins_us(result)
    done = dict.fromkeys(begins, 0.0)
    moments = np.unique(np.concatenate([log.attempt_start_us, log.attempt_end_us])).tolist()
    for low, high in pairwise(moments):
        devices, memory = speeds_at(result, low)
        for job, alone in devices.items():
            done[job] += formula(alone, memory[job], how) * max(0, high - max(low, begins[job]))
    for i, job in enumerate(log.attempt_job.tolist()):
        assert log.attempt_outcome[i] == 0
        assert abs(done[job] - log.jobs.work_us[job]) < 20, (job, done[job], log.jobs.work_us[job])


class Watched(Kernel):
    """A kernel that checks all speeds after every round against those of each slowdown alone."""

    checked = 0

    def round(self, now: int) -> int:
        wake = super().round(now)
        slowdown: Any = self.slowdown
        if self.running:
            jobs = np.array(list(self.running), np.int64)
            devices, memory = (part.speeds(self.core.view, jobs).tolist() for part in slowdown.parts)
            for job, one, two in zip(jobs.tolist(), devices, memory, strict=True):
                assert self.works._speed[job] == pytest.approx(formula(one, two, slowdown.how), rel=1e-12)
                Watched.checked += 1
        return wake


@draws(15)
@given(case=cases(), how=st.sampled_from(["add", "min", "product"]))
def test_after_every_event_each_speed_is_the_formula_of_the_two(case: tuple[Cluster, Workload], how: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulating, "Kernel", Watched)
        played(case, how)
    assert Watched.checked > 0


@draws(40)
@given(case=cases(), how=st.sampled_from(["add", "product"]))
def test_beside_a_slowdown_that_changes_nothing_the_other_gives_the_same_run(
    case: tuple[Cluster, Workload], how: str
) -> None:
    """Byte for byte: speeds of 1 by memory, and by devices."""
    cluster, jobs = case
    nobody = Workload("w", renamed(jobs.jobs, {"5": "x", "9": "y"}), jobs.intake)
    own = {**MODEL, "apps": ["x"]}
    alone = played((cluster, nobody), models=[own], contention=None)
    same(played((cluster, nobody), how, models=[own], contention=SETTINGS), alone)
    plain_pools = Cluster.from_dict({
        "nodes": [{"count": len(cluster), "cores": 4, "memory": 100}],
        "pools": [{"kind": "nvme", "count": len(cluster.devices), "quantities": {"bandwidth_mb_s": 2000}, "share": 3}],
    })  # fmt: skip
    flat = {"model": "flat", "kind": "nvme", "apps": ["5"], "times_s": [[100, 100, 100]], "governs": []}
    own_memory = MemorySpeeds(SETTINGS, plain_pools, jobs.jobs)
    same(
        played((plain_pools, jobs), how, models=[flat]),
        played((plain_pools, jobs), models=[flat], slowdowns=own_memory),
    )


def renamed(jobs: JobTable, names: dict[str, str]) -> JobTable:
    texts = [names[jobs.app_names[code]] if code >= 0 else None for code in jobs.app.tolist()]
    return job_table(
        submit_us=jobs.submit_us, work_us=jobs.work_us, tasks=jobs.tasks, memory_mb=jobs.memory_mb, ids=jobs.ids,
        devices=jobs.devices, app=pl.Series(texts, dtype=pl.String),
    )  # fmt: skip


def same(one: Result, two: Result) -> None:
    for name in ("jobs", "usage", "placements", "shares", "loans"):
        assert one.table(name).equals(two.table(name)), name


def test_a_run_with_both_is_slower_than_with_either_by_the_delays_of_both() -> None:
    """One job, two drives' worth of sharers and borrowed memory: 100 s of work, worked out by hand."""
    cluster = Cluster.from_dict({
        "nodes": [{"count": 2, "cores": 4, "memory": 100}],
        "pools": [{"kind": "nvme", "count": 1, "quantities": {"bandwidth_mb_s": 2000}, "overhead": 0.25}],
    })  # fmt: skip
    jobs = job_table(
        submit_us=np.zeros(1, np.int64), work_us=np.full(1, 100_000_000), tasks=np.ones(1, np.int64),
        memory_mb=np.array([200]), app=pl.Series(["5"]), devices={("nvme", "bandwidth_mb_s"): np.array([100])},
    )  # fmt: skip
    case = cluster, Workload("w", jobs, Intake("w", "w", 1, 1))
    alone = {
        "devices": played(case, contention=None).jobs["run_s"][0],
        "memory": unrack.simulate(*case, BOTH, world=unrack.World(contention=SETTINGS, models=())).jobs["run_s"][0],
    }
    assert alone["devices"] == 125.0
    memory = speeds_at(played(case), 0)[1][0]
    assert memory < 1
    wanted = {"add": 125 + 100 * (1 / memory - 1), "min": max(125.0, 100 / memory), "product": 125 / memory}
    for how, run_s in wanted.items():
        assert played(case, how).jobs["run_s"][0] == pytest.approx(run_s, abs=1e-5)
    assert played(case).jobs["run_s"][0] == pytest.approx(wanted["add"], abs=1e-5)


# --- studies ----------------------------------------------------------------------------------------------------------

POLICY = """
from typing import ClassVar
from both_slowdowns import borrows_and_attaches
from unrack.policy import Placed

class Both(Placed):
    lends: ClassVar[bool] = True

BOTH = Both(borrows_and_attaches, label="both")
"""
STUDY = """
policies = [{{ file = "both.py:BOTH" }}]
models = [{{ model = "slow", kind = "nvme", apps = ["1"], times_s = [[100, 150, 240]] }}]
contention = "synthetic"
{line}

[[clusters]]
nodes = [{{ count = 2, cores = 4, memory = 100 }}]

[[clusters.pools]]
kind = "nvme"
count = 2
quantities = {{ bandwidth_mb_s = 2000 }}

[[workloads]]
trace = "jobs.csv"
"""
JOBS = "id,submit,run,cores,memory,app,nvme.bandwidth_mb_s\na,0,100,1,150,1,1500\nb,5,100,1,40,1,1500\n"


def study(folder: Path, line: str = "") -> Path:
    (folder / "both.py").write_text(POLICY)
    (folder / "jobs.csv").write_text(JOBS)
    path = folder / "study.toml"
    path.write_text(STUDY.format(line=line))
    return path


@pytest.mark.parametrize(("line", "how"), [("", "add"), ("slowdowns = 'min'", "min")])
def test_a_study_says_how_slowdowns_combine(tmp_path: Path, line: str, how: str) -> None:
    loaded = load_study(str(study(tmp_path, line)))
    out = tmp_path / "out"
    run_study(loaded, out)
    record = read_record(out / "runs" / loaded.runs[0].id)
    assert record["slowdowns"] == how
    assert any(f"slowdowns = '{how}'" in note for note in record["notes"])
    told = CliRunner().invoke(app, ["explain", str(out), "a", "--policy", f"{tmp_path}/both.py:BOTH"])
    assert f"slowdowns = '{how}'" in told.output, told.output
    page = CliRunner().invoke(app, ["report", str(out)])
    assert page.exit_code == 0
    assert f"slowdowns = &#39;{how}&#39;" in (out / "report.html").read_text()


def test_ways_to_combine_are_swept_and_make_other_runs(tmp_path: Path) -> None:
    path = study(tmp_path, "[sweep]\nslowdowns = ['add', 'product']")
    loaded = load_study(str(path))
    assert [run.world.slowdowns for run in loaded.runs] == [Together.ADD, Together.PRODUCT]
    assert len({run.id for run in loaded.runs}) == 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", ["slowdowns", "'max'", "add"]),
        ('contention = "synthetic"', "", ["slowdowns", "memory is not contended"]),
        ("models = ", "# models = ", ["slowdowns", "devices set no speeds"]),
    ],
)
def test_a_way_without_effect_and_an_unknown_one_are_refused(
    tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    path = study(tmp_path, "slowdowns = 'min'" if old else "slowdowns = 'max'")
    path.write_text(path.read_text().replace(old, new) if old else path.read_text())
    with pytest.raises(StudyError) as error:
        load_study(str(path))
    assert all(word in str(error.value) for word in words), error.value
