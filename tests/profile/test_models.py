"""Files of profiles: what is written is what the models read."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import polars as pl
import pytest
from synthetic import application, bench, measured

import unrack
from unrack.errors import InputError
from unrack.profile.axes.axis import AxisFile, Level, number
from unrack.profile.models.write import model_files, write_models
from unrack.profile.profile import Profile
from unrack.resources.gpus.profiles import read_profiles as read_gpus
from unrack.resources.links.resource import read_profiles as read_links
from unrack.slowdown.contention.profile_file import read_profiles
from unrack.slowdown.model import make_models

CONTENTION = "[contention]\nlocal_mb_s = 5000\nreads = 80\n"
TRAFFIC = '[[axes]]\nkind = "memory-bandwidth"\nlevels = [1000, 5000, 10000]\nreads = {}\n'
FAR = '[[axes]]\nkind = "far-memory"\nlevels = [0.5, 1]\n'


def made(keys: str, axes: str, speed: object, name: str = "known") -> Profile:
    app = application(keys, axes)
    object.__setattr__(app, "file", app.file.model_copy(update={"name": name}))
    return measured(app, bench(speed, 1e-4))  # type: ignore[arg-type]


def beside(axis: AxisFile, level: Level) -> float:
    if axis.kind == "far-memory":
        return 1 - 0.4 * number(level)
    return 1 - number(level) / 1e5 * (2 if axis.label.endswith("50") else 1)


def test_contention_reads_what_was_measured(tmp_path: Path) -> None:
    profile = made(f'memory = "2 GB"\n{CONTENTION}', TRAFFIC.format(50) + TRAFFIC.format(100) + FAR, beside)
    write_models([profile], tmp_path)
    found = read_profiles(tmp_path)
    (row,) = found[1]
    assert (row.name, row.nodes, row.memory_mb, row.reads, row.local_mb_s) == ("known", 1, 2048, 80, 5000)
    assert row.run_s == pytest.approx(10, rel=1e-3)
    assert row.remote_speed == pytest.approx(0.6, rel=1e-3)
    assert row.remote_mb_s == pytest.approx(3000, rel=1e-3)
    model = unrack.slowdown.Contention(found)
    assert model.speed(app=1, nodes=1, remote=0, interferers=[(10_000, 1, 100)]) == pytest.approx(0.9, abs=2e-3)
    assert model.speed(app=1, nodes=1, remote=0, interferers=[(10_000, 1, 50)]) == pytest.approx(0.8, abs=2e-3)


@pytest.mark.parametrize(
    ("keys", "axes", "message"),
    [
        (CONTENTION, TRAFFIC.format(50) + FAR, "no axis memory-bandwidth with reads = 100"),
        ("", TRAFFIC.format(50) + TRAFFIC.format(100) + FAR, "nothing of its own traffic"),
        (CONTENTION, TRAFFIC.format(50) + TRAFFIC.format(100), "no speed with all memory remote"),
    ],
)
def test_contention_says_what_was_not_measured(keys: str, axes: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model_files([made(keys, axes, beside)])


DRIVES = '[[axes]]\nkind = "drives"\nlevels = [[1, 1], [1, 2], [1, 4], [2, 1], [2, 4]]\nrate = 20\n'


def shared(axis: AxisFile, level: Level) -> float:
    assert isinstance(level, tuple)
    return 1 / max(0.5, level[1] / level[0])


def test_a_study_reads_the_times_on_drives(tmp_path: Path) -> None:
    write_models([made("", DRIVES, shared, "a/b_c")], tmp_path)
    tables = tomllib.loads((tmp_path / "models.toml").read_text())
    (model,) = make_models(tables["models"], tmp_path)
    assert model.apps == ("a/b_c",)
    times = {at: model.time_s(10, *at) for at in ((1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 4))}
    assert times == pytest.approx(
        {(1, 1): 10, (1, 2): 20, (1, 3): 30, (1, 4): 40, (2, 1): 5, (2, 2): 10, (2, 4): 20}, rel=1e-3
    )
    assert model.time_s(10, 1, 5) is None


def test_links_are_read_as_shares_of_the_run_time(tmp_path: Path) -> None:
    axes = '[[axes]]\nkind = "network"\nlevels = [0.25, 0.5, 0.75]\nrate = 20\n'
    write_models([made("", axes, lambda axis, level: 1 / (0.8 + 0.2 / number(level)))], tmp_path)
    profiles = read_links(str(tmp_path / "links.csv"), "here")
    assert profiles.shares["known"][0] == pytest.approx(20, abs=0.1)
    assert profiles.full_factor("known") == pytest.approx(1.2, rel=1e-3)


def test_an_application_that_does_not_feel_the_link_has_no_share(tmp_path: Path) -> None:
    axes = '[[axes]]\nkind = "network"\nlevels = [0.25, 0.5]\nrate = 20\n'
    write_models([made("", axes, lambda axis, level: 1.0)], tmp_path)
    assert read_links(str(tmp_path / "links.csv"), "here").full_factor("known") == pytest.approx(1, abs=1e-3)


def test_gpus_are_read_as_factors(tmp_path: Path) -> None:
    axes = '[[axes]]\nkind = "gpus"\nlevels = ["spread", "beside"]\npacked = "0,1"\nspread = "0,4"\n'
    write_models([made("", axes, lambda axis, level: 0.8 if level == "spread" else 0.5)], tmp_path)
    found = read_gpus(str(tmp_path / "gpus.csv"), "here")
    assert found.apart["known"] == pytest.approx(1.25, rel=1e-3)
    assert found.beside["known", "known"] == pytest.approx(2, rel=1e-3)


def test_all_levels_are_in_one_table(tmp_path: Path) -> None:
    write_models([made("", DRIVES + FAR, lambda axis, level: 0.9)], tmp_path)
    table = pl.read_csv(tmp_path / "levels.csv")
    assert table.select("axis", "level").rows() == [
        *(("drives", f"{d} × {k}") for d, k in ((1, 2), (1, 4), (2, 1), (2, 4))),
        ("far-memory", "0.5"), ("far-memory", "1"),
    ]  # fmt: skip
    assert set(csv.DictReader((tmp_path / "levels.csv").open()).fieldnames or ()) >= {"low", "high", "runs", "form"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drives-known.csv", "levels.csv", "models.toml"]


def test_two_profiles_of_an_application_are_refused() -> None:
    one = made("", FAR, lambda axis, level: 0.9)
    with pytest.raises(InputError, match="two of 'known'"):
        model_files([one, one])


GPUS = '[[axes]]\nkind = "gpus"\nname = "{}"\nlevels = ["{}"]\npacked = "0,1"\nspread = "0,4"\n'


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (GPUS.format("mps", "beside") + GPUS.format("slices", "beside"), "axes mps and slices"),
        (DRIVES + DRIVES.replace("kind", 'name = "again"\nkind'), "axes drives and again"),
        (GPUS.format("apart", "spread") + GPUS.format("mps", "beside"), ""),
        (FAR + DRIVES, ""),
    ],
)
def test_two_axes_that_tell_the_same_are_refused(axes: str, words: str) -> None:
    one = made("", axes, lambda axis, level: 0.9)
    if not words:
        assert "levels.csv" in model_files([one])
        return
    with pytest.raises(InputError, match=words):
        model_files([one])
