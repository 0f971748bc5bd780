"""Mixes: predictions that can be worked out by hand, and a mix that is run for real."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic import NONE, bench
from test_cli import called
from test_leftovers import lacking

from unrack.errors import InputError, RunError, UnrackError
from unrack.profile.application import application_of
from unrack.profile.axes.axis import AxisFile, Level, number
from unrack.profile.check.check import CHECK, MixOutcome, summary_of
from unrack.profile.check.mixes import read_mixes
from unrack.profile.check.predicted import DEMAND, MODELS, STAGES, predict
from unrack.profile.machine.cgroups import Group
from unrack.profile.running.records import RUNS, Run, Writer
from unrack.profile.running.session import run_session
from unrack.slowdown.combined import Together

DRIVES = '[[axes]]\nkind = "drives"\nlevels = [[1, 2], [1, 3]]\nrate = 20\n'
CPU = '[[axes]]\nkind = "cpu"\nlevels = [0.25, 0.5]\n'


def linear(axis: AxisFile, level: Level) -> float:
    """Of a drive each sharer has its part; half of the cores' time takes 1.5 times as long."""
    return 1 / level[1] if isinstance(level, tuple) else 1 / (0.5 + 0.5 / number(level))


def calm(axis: AxisFile, level: Level) -> float:
    return 1.0 if isinstance(level, tuple) else number(level)


def profile(
    folder: Path, name: str, axes: str, speed: Callable[[AxisFile, Level], float] = linear, keys: str = "",
    demand: float = 1.0,
) -> None:  # fmt: skip
    """``demand``: the share of a drive of 20 MB/s that it asks for alone."""
    home = folder / name
    home.mkdir()
    text = f'name = "{name}"\ncommand = ["true"]\n{keys}{axes}'
    (home / "app.toml").write_text(text)
    (home / "probe.json").write_text(json.dumps({"folder": str(folder)}))
    writer = Writer(home / RUNS)
    reached = 20 * (demand - 0.1 / 10)  # a tenth of a second, of ten, is not counted
    run_session(
        application_of(text, folder, "app.toml"), NONE, bench(speed, 1e-6),
        lambda one: writer.add(replace(one, reached=reached, wanted=20.0) if isinstance(one, Run) else one),
    )  # fmt: skip
    writer.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    profile(tmp_path, "reader", DRIVES + CPU)
    profile(tmp_path, "calm", DRIVES, calm, demand=0.25)
    profile(tmp_path, "thinker", CPU)
    return tmp_path


def mixes(folder: Path, text: str, profiles: str = '["reader", "calm", "thinker"]') -> Path:
    path = folder / "mixes.toml"
    path.write_text(f"profiles = {profiles}\n{text}")
    return path


def predicted(folder: Path, jobs: str, how: str = Together.ADD) -> list[float]:
    found = read_mixes(mixes(folder, f"[[mixes]]\njobs = [{jobs}]\n"))
    return [round(time, 2) for time in predict(found.mixes[0], how)]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ('{app = "reader"}', [10]),
        ('{app = "reader"}, {app = "reader"}', [20, 20]),
        ('{app = "reader"}, {app = "reader", at = "5 s"}', [15, 15]),
        ('{app = "reader", at = 5}, {app = "reader"}', [15, 15]),
        ('{app = "reader"}, {app = "calm"}', [15, 10]),  # 10 s beside it, and 5 s alone
        ('{app = "reader"}, {app = "thinker"}', [10, 10]),
        ('{app = "reader"}, {app = "reader"}, {app = "reader"}', [30, 30, 30]),
        ('{app = "thinker", levels = {cpu = 0.5}}', [15]),
    ],
)
def test_a_mix_is_predicted_as_by_hand(folder: Path, jobs: str, expected: list[float]) -> None:
    assert predicted(folder, jobs) == pytest.approx(expected, abs=0.02)


def test_slowdowns_of_a_job_combine_by_each_rule(folder: Path) -> None:
    jobs = '{app = "reader", levels = {cpu = 0.5}}, {app = "calm"}, {app = "calm"}'
    # beside one or two for as long as those run (10 s), alone with half of the cores' time from then on
    by = {how: predicted(folder, jobs, how)[0] for how in Together}
    beside = {Together.ADD: 1 / 3.5, Together.MIN: 1 / 3, Together.PRODUCT: 1 / 4.5}
    assert by == pytest.approx({how: 10 + (10 - 10 * speed) * 1.5 for how, speed in beside.items()}, abs=0.05)


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ('{app = "reader"}, {app = "reader", at = 5}', [15, 15]),
        ('{app = "reader"}, {app = "calm"}', [12.5, 10]),  # a quarter of the drive is asked for, and had
        ('{app = "calm"}, {app = "reader", at = 5}, {app = "thinker"}', [10, 11.25, 10]),
        ('{app = "calm"}, {app = "calm"}, {app = "reader"}', [10, 10, 15]),
        # with half of the cores' time it takes 15 s, and asks for two thirds; a half is left to it
        ('{app = "reader", levels = {cpu = 0.5}}, {app = "reader"}', [20, 20]),
        ('{app = "reader", levels = {cpu = 0.5}}, {app = "calm"}', [15, 10]),
    ],
)
def test_shares_by_demand_leave_the_rest_to_the_others(folder: Path, jobs: str, expected: list[float]) -> None:
    assert predicted(folder, jobs, DEMAND) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ('{app = "reader"}, {app = "reader", at = 5}', [15, 15]),
        ('{app = "calm"}', [10]),
        ('{app = "reader"}, {app = "calm"}', [12.5, 12.5]),  # 5 s beside it: then its quarter is read
        ('{app = "calm"}, {app = "reader", at = 5}, {app = "thinker"}', [10, 10, 10]),
        ('{app = "calm"}, {app = "calm"}, {app = "calm", at = 1}', [14.5, 14.5, 14]),  # read at 7, 7 and 7.5 s
        # half of the cores' time makes 15 s of 10, half of the drive 20, and both 25: 8 are done when it is alone
        ('{app = "reader", levels = {cpu = 0.5}}, {app = "reader"}', [23, 20]),
        ('{app = "calm", at = 3}, {app = "thinker", levels = {cpu = 0.5}}', [10, 15]),
    ],
)
def test_stages_use_the_drive_first_and_leave_it_then(folder: Path, jobs: str, expected: list[float]) -> None:
    assert predicted(folder, jobs, STAGES) == pytest.approx(expected, abs=0.02)


def test_an_application_without_counted_bytes_asks_for_all_of_a_drive(folder: Path) -> None:
    path = folder / f"calm/{RUNS}"
    path.write_text(re.sub(r'"reached": [0-9.]+', '"reached": null', path.read_text()))
    assert predicted(folder, '{app = "reader"}, {app = "calm"}', DEMAND) == pytest.approx([20, 20], abs=0.02)


def test_the_model_that_is_nearest_is_offered(folder: Path) -> None:
    found = read_mixes(mixes(folder, '[[mixes]]\njobs = [{app = "reader"}, {app = "calm"}]\n'))
    rules = {"add": (11.0, 10.0), "min": (10.1, 10.0), "product": (15.0, 30.0)}
    rules |= {"demand": (10.2, 10.0), "stages": (9.0, 9.0)}
    summary = summary_of([MixOutcome(found.mixes[0], (10.0, 10.0), rules, (0.5, 0.7))])
    assert summary["offered"] == "min"
    assert summary["rules"]["product"] == pytest.approx({"median": 1.25, "mean": 1.25, "most": 2.0, "ends": 2.0})
    assert [(one["job"], one["load"]) for one in summary["jobs"]] == [("reader", 0.7), ("calm", 0.7)]
    assert summary["jobs"][0]["error"] == pytest.approx(0.01)
    same = dict.fromkeys(rules, (10.0, 10.0))
    assert summary_of([MixOutcome(found.mixes[0], (10.0, 10.0), same, (0.5,))])["offered"] == "add"


def test_mixes_are_drawn_by_their_seed(folder: Path) -> None:
    text = "[draw]\nmixes = 20\njobs = [2, 3]\nwithin = 0.5\nlevels = {{cpu = [0.5, 1.0]}}\nseed = {}\n"
    one, again, other = (read_mixes(mixes(folder, text.format(seed))).mixes for seed in (1, 1, 2))

    def names(drawn: object) -> list[list[tuple[str, float]]]:
        return [[(job.label, job.at_s) for job in mix.jobs] for mix in drawn]  # type: ignore[attr-defined]

    assert names(one) == names(again) != names(other)
    assert {len(mix.jobs) for mix in one} == {2, 3}
    assert all(mix.jobs[0].at_s == 0 and max(job.at_s for job in mix.jobs) <= 5 for mix in one)
    labels = {job.label for mix in one for job in mix.jobs}
    assert {"reader, cpu 0.5", "reader, cpu 1", "calm", "thinker, cpu 0.5"} <= labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no mixes"),
        ("[[mixes]]\njobs = []", "jobs"),
        ('[[mixes]]\njobs = [{app = "raeder"}]', "'reader' perhaps"),
        ('[[mixes]]\njobs = [{app = "reader", at = "soon"}]', "mixes.0.jobs.0.at"),
        ('[[mixes]]\njobs = [{app = "calm", levels = {cpu = 0.5}}]', "an axis of calm with numbers: it has none"),
        ('[[mixes]]\njobs = [{app = "reader", levels = {drives = 1}}]', "with numbers: cpu"),
        ('[[mixes]]\njobs = [{app = "reader", levels = {cpu = 0.1}}]', "a level from 0.25 to 1"),
        (
            "[[mixes]]\njobs = [" + '{app = "reader"}, ' * 4 + "]",
            "4 jobs on the drive, and reader was measured with up to 3",
        ),
        ("[draw]\njobs = [3, 2]", "two numbers, the smaller one first"),
        ("[draw]\nmix = 3", "an unknown key"),
        ("repeats = 0\n[draw]", "repeats"),
        ("[draw", "TOML"),
    ],
)
def test_mixes_that_cannot_be_are_refused(folder: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_mixes(mixes(folder, text))
    assert message in str(error.value)


def test_profiles_that_do_not_go_together_are_refused(folder: Path) -> None:
    profile(folder, "fast", DRIVES.replace("20", "30"))
    profile(folder, "rated", DRIVES, keys="progress = { regex = '(x)' }\n")
    text = '[[mixes]]\njobs = [{app = "reader"}]\n'
    for profiles, message in (
        ('["reader", "reader"]', "two of 'reader'"), ('["none"]', "none, app.toml"),
        ('["reader", "fast"]', "drives of 20 MB/s, 30 MB/s"), ('["reader", "rated"]', "a progress of its own"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            read_mixes(mixes(folder, text, profiles))
    with pytest.raises(InputError, match="No such file"):
        read_mixes(folder / "no.toml")


@pytest.mark.long
def test_a_mix_is_run_for_real(tmp_path: Path) -> None:
    if why := lacking("drives", tmp_path):
        pytest.skip(why)
    (tmp_path / "script.py").write_text("import sys; open(sys.argv[1] + '/blob', 'rb').read()")
    (tmp_path / "blob").write_bytes(bytes(4_000_000))
    command = f'command = ["{sys.executable}", "script.py", "{{mount}}"]\ninputs = ["blob"]\n'
    keys = f'name = "a"\n{command}drift = 0.9\nwidth = 0.9\n'
    axis = '[[axes]]\nkind = "drives"\nlevels = [[1, 2]]\nrate = "8 MB/s"\nsize = "32 MB"\n'
    (tmp_path / "app.toml").write_text(keys + axis)
    for left in (2, 1, 0):
        try:
            called("run", tmp_path / "app.toml", "-o", tmp_path / "profile")
            break
        except RunError as error:
            if "controls drifted" not in str(error):
                raise
            if not left:
                pytest.skip(f"this machine is too busy to measure on: {error}")
    (tmp_path / "mixes.toml").write_text(
        'profiles = ["profile"]\nrepeats = 1\n[[mixes]]\njobs = [{app = "a"}, {app = "a", at = "0.1 s"}]\n'
    )
    out = tmp_path / "out"
    found = json.loads(called("check", tmp_path / "mixes.toml", "-o", out, "--json"))
    assert found == json.loads((out / CHECK).read_text())
    assert [path.name for path in out.iterdir()] == [CHECK]
    assert all(one["measured_s"] > 0.4 for one in found["jobs"])  # 4 MB at 8 MB/s at most, less a tenth of a second
    assert all(abs(one["error"]) < 1 for one in found["jobs"])
    assert "off by" in called("check", tmp_path / "mixes.toml", "-o", out)


def test_a_job_of_a_mix_that_fails_is_said(tmp_path: Path) -> None:
    if why := lacking("drives", tmp_path):
        pytest.skip(why)
    profile(tmp_path, "reader", DRIVES)
    app = tmp_path / "reader/app.toml"
    app.write_text(app.read_text().replace('"true"', '"false"'))
    path = mixes(tmp_path, '[[mixes]]\njobs = [{app = "reader"}]\n', '["reader"]')
    with pytest.raises(UnrackError, match="reader: false: exit code 1"):
        called("check", path, "-o", tmp_path / "out")


def test_a_level_of_a_mix_that_is_missed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if why := lacking("drives", tmp_path) or lacking("cpu", tmp_path):
        pytest.skip(why)
    profile(tmp_path, "reader", DRIVES + CPU)
    app = tmp_path / "reader/app.toml"
    busy = "import time\nwhile time.process_time() < 0.4: pass"
    app.write_text(app.read_text().replace('["true"]', json.dumps([sys.executable, "-c", busy])))
    monkeypatch.setattr(Group, "limit_cpu", lambda group, cores: None)
    path = mixes(tmp_path, '[[mixes]]\njobs = [{app = "reader", levels = {cpu = 0.25}}]\n', '["reader"]')
    with pytest.raises(
        UnrackError, match=r"mix 1, reader, cpu 0.25: not held: 0\.\d+ of 0.25 \(time of its processes\)"
    ):
        called("check", path, "-o", tmp_path / "out")


def test_jobs_of_a_mix_have_links_and_quotas_of_their_own(tmp_path: Path) -> None:
    if why := lacking("drives", tmp_path) or lacking("network", tmp_path) or lacking("cpu", tmp_path):
        pytest.skip(why)
    link = '[[axes]]\nkind = "network"\nlevels = [0.5]\nrate = 20\nserve = ["sleep", "100"]\n'
    profile(tmp_path, "reader", DRIVES)
    profile(tmp_path, "talker", link + CPU)
    app = tmp_path / "talker/app.toml"
    app.write_text(app.read_text().replace('["true"]', '["test", "{peer}", "=", "198.18.0.2"]'))
    jobs = '{app = "reader"}, {app = "talker"}, {app = "talker", levels = {cpu = 0.5, network = 0.5}}'
    path = mixes(tmp_path, f"repeats = 1\n[[mixes]]\njobs = [{jobs}]\n", '["reader", "talker"]')
    found = json.loads(called("check", path, "-o", tmp_path / "out", "--json"))
    assert [one["job"] for one in found["jobs"]] == ["reader", "talker", "talker, cpu 0.5, network 0.5"]
    assert list(found["rules"]) == list(MODELS)


def test_jobs_that_use_no_drive_are_checked_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if why := lacking("cpu", tmp_path):
        pytest.skip(why)
    monkeypatch.setattr("unrack.profile.check.check.capped_drive", None)
    profile(tmp_path, "thinker", CPU)
    text = 'repeats = 1\n[[mixes]]\njobs = [{app = "thinker", levels = {cpu = 0.5}}]\n'
    found = json.loads(called("check", mixes(tmp_path, text, '["thinker"]'), "-o", tmp_path / "out", "--json"))
    assert [one["job"] for one in found["jobs"]] == ["thinker, cpu 0.5"]
