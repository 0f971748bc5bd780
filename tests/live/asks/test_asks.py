"""What jobs ask in their comments, and that the script for Slurm reads the same."""

from __future__ import annotations

import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.live.asks import Askable, AskError, Asks, asks_of
from unrack.live.asks.amounts import BANDWIDTH, COUNT, SIZE, amount
from unrack.live.slurm.asks.comments import asks_of_job
from unrack.live.slurm.asks.script import script_text
from unrack.live.slurm.reading import SlurmJob
from unrack.units import quantity

HERE = Path(__file__).parent
SAMPLES = tomllib.loads((HERE / "samples.toml").read_text())
CLUSTER = Cluster.from_dict(SAMPLES["cluster"])
LUAS = [path for name in ("lua5.1", "lua5.3", "lua5.4") if (path := shutil.which(name))]

PIECES = [
    "unrack:", "UNRACK:", "unrack", ";", "\n", " ", "\t", "\r", "=", ".", "/s", "nvme.", "nvme.capacity=",
    "nvme.bandwidth=", "nvme.devices=", "memory=", "deadline=", "priority=", "app=",
    "counted.matlab=", "1", "0", "9" * 13, "1.5", "-", "+", "GB", "Gb", "MiB/s", "h", "min", "d", "us", "amber",
    "\x00", "\x07", "\\", "'", '"', "$(", "é", "\ud800",
]  # fmt: skip
COMMENTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=12).map(lambda pieces: "unrack: " + "".join(pieces)),
    st.text(st.characters(), max_size=200),
)


def asked(sample: dict[str, Any]) -> Asks:
    devices = {tuple(key.split(".")): value for key, value in sample.get("devices", {}).items()}
    own = {key: value for key, value in sample.items() if key not in ("text", "devices")}
    return Asks(devices, **own)


def refusal(text: str) -> str:
    """Why a comment is refused; empty: it is not."""
    try:
        asks_of(text, CLUSTER, priority_most=0)
    except AskError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("sample", SAMPLES["valid"], ids=lambda sample: sample["text"])
def test_a_comment_asks_for_what_it_says(sample: dict[str, Any]) -> None:
    assert asks_of(sample["text"], CLUSTER, priority_most=0) == asked(sample)


@pytest.mark.parametrize("sample", SAMPLES["invalid"], ids=lambda sample: sample["text"])
def test_a_comment_that_cannot_be_understood_is_refused_with_what_was_got(sample: dict[str, Any]) -> None:
    with pytest.raises(AskError) as error:
        asks_of(sample["text"], CLUSTER, priority_most=0)
    assert (error.value.where, error.value.got) == (sample["where"], sample["got"])
    assert error.value.want


@draws(400)
@given(COMMENTS)
def test_any_text_is_asks_or_a_short_printable_refusal(text: str) -> None:
    said = refusal(text)
    assert len(said) < 700
    assert said.isprintable()


@pytest.mark.parametrize("piece", ["x", "unrack:", " unrack:", ";unrack:", "unrack: ", "=", "\n", " ", "1", "a=", "é"])
def test_a_hundred_kilobytes_of_anything_take_no_time(piece: str) -> None:
    for start in ("", "unrack: ", "unrack: app=", "unrack: deadline=1"):
        begun = time.perf_counter()
        assert len(refusal(start + piece * (100_000 // len(piece)))) < 700
        assert time.perf_counter() - begun < 0.5


@given(st.integers(0, 10**13 - 1), st.integers(0, 999), st.sampled_from(["", "K", "M", "G", "T"]))
def test_sizes_and_bandwidths_are_those_of_the_rest_of_unrack(whole: int, part: int, unit: str) -> None:
    for form, name, text in (
        (SIZE, "x_mb", f"{whole}.{part:03d}{unit}"),
        (BANDWIDTH, "x_mb_s", f"{whole}.{part}{unit}/s"),
    ):
        try:
            wanted = quantity(name, text)
        except ValueError:
            with pytest.raises(ValueError, match="below"):
                amount(form, text)
        else:
            assert amount(form, text) == wanted
    assert whole >= 2**42 or amount(COUNT, str(whole)) == whole


def test_what_an_administrator_says_wins_where_both_say_something() -> None:
    askable = Askable.of(CLUSTER)
    job = SlurmJob(
        1, "PENDING", comment="unrack: nvme.capacity=1GB memory=4GB app=user",
        admin_comment="moved by Kim; unrack: nvme.capacity=2GB priority=7",
    )  # fmt: skip
    assert asks_of_job(job, askable) == Asks({("nvme", "capacity_mb"): 2048}, 4096, None, 7, "user")


def test_only_an_administrator_raises_a_priority() -> None:
    askable = Askable.of(CLUSTER)
    job = SlurmJob(1, "PENDING", comment="unrack: priority=7")
    with pytest.raises(AskError, match="comment, priority: got '7', wanted 0 or less: only an administrator"):
        asks_of_job(job, askable)
    assert asks_of_job(job, askable, user_priority_most=10).priority == 7


def test_a_misspelt_ask_is_answered_with_the_nearest() -> None:
    with pytest.raises(AskError, match=r"wanted 'nvme\.capacity' perhaps"):
        asks_of("unrack: nvme.capactiy=1GB", CLUSTER)


class Script:
    """``job_submit.lua`` in a Lua of its own, outside of Slurm."""

    def __init__(self, lua: str, path: Path) -> None:
        self._process = subprocess.Popen([lua, str(HERE / "check.lua"), str(path)], stdin=-1, stdout=-1)

    def says(self, text: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        raw = text.encode("utf-8", "surrogateescape" if text.isascii() else "surrogatepass")
        self._process.stdin.write(b"%d\n%s" % (len(raw), raw))
        self._process.stdin.flush()
        return self._process.stdout.readline().decode("utf-8", "replace").rstrip("\n")

    def close(self) -> None:
        self._process.communicate(timeout=10)
        assert self._process.returncode == 0


@pytest.fixture(scope="module", params=LUAS or ["no lua"], ids=lambda path: Path(path).name)
def script(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Script]:
    if not LUAS:
        pytest.skip("no lua5.1, lua5.3 or lua5.4 on this machine")
    path = tmp_path_factory.mktemp("lua") / "job_submit.lua"
    path.write_text(script_text(["batch"], Askable.of(CLUSTER)))
    started = Script(request.param, path)
    yield started
    started.close()


def test_the_script_lets_through_what_can_be_understood(script: Script) -> None:
    for sample in SAMPLES["valid"]:
        assert script.says(sample["text"]) == "ok", sample["text"]


def test_the_script_refuses_with_the_words_of_unrack(script: Script) -> None:
    for sample in SAMPLES["invalid"]:
        assert script.says(sample["text"]).startswith(f"unrack: {sample['where']}: got {sample['got']}, wanted ")


@draws(1500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(COMMENTS)
@example("unrack: nvme.bandwidth=35184372088.831Gb/s")
@example("unrack: nvme.bandwidth=35184372088.833Gb/s")
@example("unrack: nvme.capacity=4194304TB")
@example("unrack: nvme.capacity=4194303.999TB")
@example("unrack: deadline=0.5us")
@example("unrack: deadline=0.501us")
@example("unrack: deadline=3649d23h59min60s")
@example("unrack: memory=0.001B")
def test_the_script_and_unrack_agree_on_any_text(script: Script, text: str) -> None:
    said, wanted = script.says(text), refusal(text)
    assert (said == "ok") == (wanted == "")
    if wanted and text.isascii() and "one of " not in wanted:
        assert said == f"unrack: {wanted}"


def test_the_shipped_script_takes_any_ask_that_looks_like_one(tmp_path: Path) -> None:
    if not LUAS:
        pytest.skip("no lua5.1, lua5.3 or lua5.4 on this machine")
    (tmp_path / "job_submit.lua").write_text(script_text(["batch"]))
    started = Script(LUAS[0], tmp_path / "job_submit.lua")
    assert started.says("unrack: anything.capacity=1GB other.rate=2GB/s more.things=3") == "ok"
    assert started.says("unrack: anything.capacity=many").startswith("unrack: comment, anything.capacity: got 'many'")
    assert started.says("unrack: anything=1").startswith("unrack: comment: got 'anything'")
    started.close()


def test_a_script_holds_jobs_of_its_partitions_alone(tmp_path: Path) -> None:
    if not LUAS:
        pytest.skip("no lua5.1, lua5.3 or lua5.4 on this machine")
    wake = tmp_path / 'wake "file"\\'
    wake.write_text("")
    (tmp_path / "job_submit.lua").write_text(script_text(["batch", "night"], operators=[0, 900], wake_file=wake))
    command = [LUAS[0], str(HERE / "partitions.lua"), str(tmp_path / "job_submit.lua")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "all as it should be\n")
    assert wake.read_text() == "\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": ['a"; os.execute("true") --']},
        {"partitions": ["a"], "wake_file": "/tmp/a\nb"},
        {"partitions": ["a"], "wake_file": "relative"},
        {"partitions": ["a"], "operators": []},
        {"partitions": ["a"], "operators": [-1]},
        {"partitions": ["a"], "priority_most": 10**9},
    ],
)
def test_nothing_that_is_not_a_setting_gets_into_the_script(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        script_text(**wrong)
