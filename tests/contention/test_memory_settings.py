"""What a run may be told about contention, and which application each job is taken for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from applications import pair, profile, worked

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, TraceError
from unrack.slowdown.contention.profile import ProfileSet
from unrack.slowdown.contention.profile_file import synthetic_profiles, write_profiles
from unrack.slowdown.memory.settings import Distances, MemoryContention, make_contention
from unrack.slowdown.memory.speeds import applications_of, nodes_needed
from unrack.workload.job import JobTable, job_table


@pytest.mark.parametrize("value", [None, "off", {"profiles": "off", "method": "line"}])
def test_off_means_that_nobody_slows_anybody_down(value) -> None:
    assert make_contention(value) is None


def test_profiles_come_by_name_from_a_folder_or_from_two_files(tmp_path: Path) -> None:
    apps, curves = write_profiles(worked(), tmp_path / "measured")
    named = make_contention("synthetic")
    assert named is not None
    assert named.profiles == synthetic_profiles()
    for value in ("measured", ["measured/apps.csv", "measured/curves.csv"], {"profiles": "measured"}, [apps, curves],
                  tmp_path / "measured", (str(apps), curves)):  # fmt: skip
        found = make_contention(value, tmp_path)
        assert found is not None
        assert found.profiles == worked()
    assert make_contention(found) is found


def test_every_key_of_the_table_reaches_the_prediction() -> None:
    keys = {
        "profiles": "synthetic", "method": "memgen", "tolerance": 0, "floor": 0.5, "curves": "none", "missing": "none",
        "traffic": "share", "distance": {"far": 2},
    }  # fmt: skip
    found = make_contention(keys)
    assert found is not None
    model = found.model
    assert (model.method, model.tolerance, model.floor, model.fallback) == ("memgen", 0, 0.5, "none")
    assert (found.missing, found.traffic, found.distance) == ("none", "share", Distances(far=2.0))


@pytest.mark.parametrize(
    ("value", "where", "got"),
    [
        ({"profile": "synthetic"}, "contention.profile", "an unknown key"),
        ({"method": "line"}, "contention.profiles", "nothing"),
        ({"profiles": "synthetic", "method": "cubic"}, "contention.method", "'cubic'"),
        ({"profiles": "synthetic", "tolerance": 2}, "contention.tolerance", "2.0"),
        ({"profiles": "synthetic", "tolerance": True}, "contention.tolerance", "True"),
        ({"profiles": "synthetic", "distance": {"near": 2}}, "contention.distance.near", "an unknown key"),
        ({"profiles": "synthetic", "distance": {"far": -1}}, "contention.distance.far", "-1.0"),
        ({"profiles": "synthetic", "distance": {"far": float("nan")}}, "contention.distance.far", "nan"),
        ({"profiles": []}, "contention.profiles", "[]"),
        (["a", "b", "c"], "contention.profiles", "['a', 'b', 'c']"),
        (7, "contention", "7"),
    ],
)
def test_a_wrong_setting_is_refused_with_where_and_what(value, where, got) -> None:
    with pytest.raises(InputError) as caught:
        make_contention(value)
    assert (caught.value.where, caught.value.got) == (where, got)


def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(TraceError, match="no-such-folder"):
        make_contention("no-such-folder")


def test_settings_are_checked_when_they_are_made_in_python_too() -> None:
    with pytest.raises(InputError, match=r"traffic: got 'half'"):
        MemoryContention(worked(), traffic="half")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"curves: got 'other'"):
        MemoryContention(worked(), curves="other")  # type: ignore[arg-type]


def test_the_identity_changes_with_settings_and_content_but_not_with_where_the_files_are(tmp_path: Path) -> None:
    write_profiles(worked(), tmp_path / "one")
    write_profiles(worked(), tmp_path / "two")
    one, two = (make_contention(str(tmp_path / name)) for name in ("one", "two"))
    assert one is not None
    assert two is not None
    assert one.identity() == two.identity()
    rows = worked().profiles
    other = ProfileSet((rows[0]._replace(reads=76.0), *rows[1:]), worked().curves)
    seen = [one.identity(), MemoryContention(other).identity(), MemoryContention(worked(), missing="none").identity(),
            MemoryContention(worked(), distance=Distances(far=2.0)).identity()]  # fmt: skip
    assert len({repr(identity) for identity in seen}) == len(seen)
    again = make_contention({**one.settings(), "profiles": str(tmp_path / "one")})
    assert again == one


# --- applications -----------------------------------------------------------------------------------------------


def workload(apps: list[str | None], **columns: list[int]) -> JobTable:
    count = len(apps)
    given = {name: np.array(values, np.int64) for name, values in columns.items()}
    given.setdefault("tasks", np.ones(count, np.int64))
    given.setdefault("work_us", np.arange(count) * 1_000_000)
    return job_table(submit_us=np.zeros(count, np.int64), app=pl.Series(apps, dtype=pl.String), **given)


NAMED = ProfileSet(
    (
        profile(2, 1, run_s=10.0)._replace(name="amg"), profile(30, 1, run_s=90.0)._replace(name="lulesh"),
        profile(4, 1)._replace(name="bare"),
    ),
    (*pair(2, 1, 1, (0.2, 0.1)), *pair(30, 1, 1, (0.3, 0.2))),
)  # fmt: skip


def test_an_application_is_known_by_its_id_or_by_its_name() -> None:
    jobs = workload(["2", "30", "amg", "lulesh", "bare"])
    place, note = applications_of(MemoryContention(NAMED), Cluster.homogeneous(2, 4), jobs)
    assert place.tolist() == [0, 2, 0, 2, 1]
    assert str(note) == "1 of 5 jobs have no curves and run on those of another application"


def test_a_job_of_an_unknown_application_runs_as_the_nearest_or_is_left_out() -> None:
    jobs = workload(["amg", "unheard", None, "31"], work_us=[0, 0, 90_000_000, 100_000_000])
    cluster = Cluster.homogeneous(2, 4)
    place, note = applications_of(MemoryContention(NAMED), cluster, jobs)
    assert place.tolist() == [0, 0, 2, 2]
    assert str(note) == "3 of 4 jobs have no profile and run as the application nearest to them"
    place, note = applications_of(MemoryContention(NAMED, missing="none"), cluster, jobs)
    assert place.tolist() == [0, -1, -1, -1]
    assert str(note) == "3 of 4 jobs have no profile and neither suffer nor disturb"
    place, note = applications_of(MemoryContention(NAMED), cluster, workload(["2", "30"]))
    assert str(note) == "all 2 jobs have a profile and curves of their own"


def test_without_curves_of_others_a_bare_application_pays_for_distance_only() -> None:
    _, note = applications_of(MemoryContention(NAMED, curves="none"), Cluster.homogeneous(2, 4), workload(["4", "2"]))
    assert str(note) == "1 of 2 jobs have no curves and pay for distance only"


def test_a_workload_without_jobs_has_nothing_to_say() -> None:
    place, note = applications_of(MemoryContention(NAMED), Cluster.homogeneous(2, 4), workload([]))
    assert place.shape == (0,)
    assert note.jobs == 0


def test_a_job_is_as_large_as_the_nodes_that_its_tasks_fill() -> None:
    kinds = [{"count": 2, "cores": 8, "memory": 8}, {"count": 2, "cores": 4, "memory": 8}]
    cluster = Cluster.from_dict({"nodes": kinds, "memory_pools": [{"count": 1, "memory": 8}]})
    jobs = workload([None] * 5, tasks=[3, 3, 9, 5, 7], cores=[4, 8, 1, 3, 0])
    assert nodes_needed(cluster, jobs).tolist() == [3, 3, 3, 5, 2]
