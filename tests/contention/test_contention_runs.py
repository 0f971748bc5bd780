"""Contention in whole runs and in studies: switched on, off, kept, told again."""

from __future__ import annotations

import json
import pickle
import tomllib
from pathlib import Path

import polars as pl
import pytest
from applications import worked

import unrack
from unrack.errors import InputError
from unrack.slowdown.contention.profile_file import write_profiles
from unrack.slowdown.memory.settings import MemoryContention
from unrack.study.grid import Study, load_study
from unrack.study.results.from_folder import finished_run
from unrack.study.runner import run_study

TEXT = """
policies = ["disaggregated", "baseline"]
contention = "measured"

[[clusters]]
nodes = [{count = 6, cores = 2, memory = "1 GB"}]

[[workloads]]
name = "some"

[workloads.generate]
jobs = 40
arrivals = {gap_s = 10}
classes = [
  {name = "5", run_s = {kind = "exponential", mean = 100}, tasks = 2, cores = 2, memory_mb = 700},
  {name = "9", run_s = 50, tasks = 1, cores = 2, memory_mb = 1500},
  {name = "new", run_s = 90, tasks = 1, cores = 2, memory_mb = 300},
]
"""
SOME = ["jobs", "usage", "placements", "loans"]


def study(folder: Path, text: str = TEXT) -> Study:
    """A study in a folder in which ``measured`` are the worked profiles."""
    if not (folder / "measured").exists():
        write_profiles(worked(), folder / "measured")
    (folder / "study.toml").write_text(text)
    return load_study(str(folder / "study.toml"))


def small() -> tuple[unrack.Cluster, unrack.Workload]:
    table = tomllib.loads(TEXT)
    return unrack.Cluster.from_dict(table["clusters"][0]), unrack.generate(table["workloads"][0]["generate"], 3)


def test_jobs_that_borrow_run_longer_and_without_contention_as_long_as_the_trace_says() -> None:
    cluster, workload = small()
    off = unrack.simulate(cluster, workload, "disaggregated")
    on = unrack.simulate(cluster, workload, "disaggregated", world=unrack.World(contention=MemoryContention(worked())))
    assert off.contention is None
    assert set(off.jobs["stretch"].drop_nulls()) == {1.0}
    big = on.jobs.filter(pl.col("app") == "9")
    assert (big["remote_share"] > 0).all()
    assert (big["stretch"] > 1.0).all()
    assert on.contention is not None
    assert on.contention.jobs == 40
    assert on.contention.without_profile == (on.jobs["app"] == "new").sum()


@pytest.mark.parametrize("policy", ["easy", "easy(nodes=whole)", "baseline"])
def test_where_nothing_is_borrowed_contention_changes_nothing(policy) -> None:
    cluster, workload = small()
    off = unrack.simulate(cluster, workload, policy)
    on = unrack.simulate(cluster, workload, policy, world=unrack.World(contention="synthetic"))
    for name in SOME:
        assert on.table(name).equals(off.table(name))


def test_the_same_run_twice_is_the_same() -> None:
    cluster, workload = small()
    one, two = (
        unrack.simulate(cluster, workload, "local-spread", world=unrack.World(contention="synthetic")) for _ in range(2)
    )
    for name in SOME:
        assert one.table(name).equals(two.table(name))


# --- studies ----------------------------------------------------------------------------------------------------


def test_a_study_keeps_its_contention_and_explains_from_what_it_kept(tmp_path: Path) -> None:
    found = study(tmp_path)
    rows = run_study(found, tmp_path / "out")
    assert len(rows) == 2
    assert tomllib.loads((tmp_path / "out" / "study.toml").read_text())["contention"] == "measured"
    (tmp_path / "measured" / "apps.csv").unlink()
    folder = tmp_path / "out" / "runs" / found.runs[0].id
    record = json.loads((folder / "run.json").read_text())
    assert record["contention"]["method"] == "line"
    assert record["contention"]["profiles"] == worked().digest()
    assert "have no profile and run as the application nearest to them" in record["contention"]["note"]
    again = finished_run(tmp_path / "out", "disaggregated")
    assert again.contention() == found.runs[0].world.contention
    assert (
        pickle.loads(pickle.dumps(found.runs[0].world.contention)) == found.runs[0].world.contention
    )  # as worker processes get it
    kept = pl.read_parquet(folder / "jobs.parquet").filter(pl.col("stretch") > 1.0)
    assert len(kept) > 5
    for job, end_s in kept.select("job", "end_s").rows()[:5]:
        assert again.story(str(job)).attempts[-1].end_us / 1e6 == pytest.approx(end_s, abs=1e-6)


def test_a_run_is_another_when_its_contention_or_a_profile_is(tmp_path: Path) -> None:
    texts = [
        TEXT,
        TEXT.replace('"measured"', '"off"'),
        TEXT.replace('"measured"', '"synthetic"'),
        TEXT.replace('"measured"', '{ profiles = "measured", traffic = "share" }'),
        TEXT.replace('"measured"', '{ profiles = "measured", distance = { rack = 2.0 } }'),
    ]
    ids = [study(tmp_path, text).runs[0].id for text in texts]
    curves = tmp_path / "measured" / "curves.csv"
    curves.write_text(curves.read_text().replace("0.9\n", "0.91\n"))
    ids.append(study(tmp_path).runs[0].id)
    assert len(set(ids)) == len(ids)
    assert study(tmp_path, TEXT.replace('"measured"', '{ profiles = ["measured/apps.csv", "measured/curves.csv"] }'))\
        .runs[0].id == ids[-1]  # fmt: skip
    plain = study(tmp_path, TEXT.replace('contention = "measured"', ""))
    assert plain.runs[0].id == ids[1]


def test_keys_of_contention_can_be_swept_and_so_can_all_of_it(tmp_path: Path) -> None:
    text = TEXT.replace('contention = "measured"', "") + '[sweep]\ncontention = ["off", "synthetic", "measured"]\n'
    runs = study(tmp_path, text).runs
    assert [run.world.contention is None for run in runs] == [True, True, False, False, False, False]
    table = TEXT.replace('"measured"', '{ profiles = "measured" }')
    runs = study(tmp_path, table + '[sweep]\n"contention.method" = ["line", "memgen"]\n').runs
    assert [run.world.contention.method for run in runs if run.world.contention] == ["line", "line", "memgen", "memgen"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('"nowhere"', ["line 3, contention", "nowhere"]),
        ('{ profiles = "measured", methods = "line" }', ["line 3", "contention.methods: got an unknown key", "method"]),
        ('{ profiles = "measured", method = "cubic" }', ["line 3", "contention.method: got 'cubic'", "line"]),
        ('{ profiles = "measured", tolerance = 7.0 }', ["line 3", "contention.tolerance: got 7.0"]),
        ("7", ["line 3, contention", "got 7"]),
    ],
)
def test_a_wrong_contention_is_refused_at_its_line(tmp_path: Path, written, said) -> None:
    with pytest.raises(InputError) as caught:
        study(tmp_path, TEXT.replace('"measured"', written))
    for part in said:
        assert part in str(caught.value)


def test_a_run_whose_profiles_were_taken_away_says_so(tmp_path: Path) -> None:
    found = study(tmp_path)
    run_study(found, tmp_path / "out")
    (tmp_path / "out" / "runs" / found.runs[0].id / "profiles" / "curves.csv").unlink()
    with pytest.raises(InputError, match=r"curves\.csv: got a file that cannot be read \(No such file"):
        finished_run(tmp_path / "out", "disaggregated").contention()
