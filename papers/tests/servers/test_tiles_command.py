"""``unrack tiles``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import UnrackError


def command(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["tiles", *words])
    if isinstance(result.exception, UnrackError):
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.output


def test_the_closest_cores_are_drawn() -> None:
    code, said = command("4x5", "6")
    assert code == 0
    assert said.splitlines() == [
        "■ ■ ■ · ·", "■ ■ ■ · ·", "· · · · ·", "· · · · ·",
        "cores 0,1,2,5,6,7: 25 hops over all pairs, proven the least",
    ]  # fmt: skip


def test_cores_in_use_are_left_alone() -> None:
    code, said = command("4X5", "3", "--taken", "0-6, 9", "--json")
    assert code == 0
    answer = json.loads(said)
    assert not set(answer["tiles"]) & {0, 1, 2, 3, 4, 5, 6, 9}
    assert (len(answer["tiles"]), answer["distance"], answer["optimal"]) == (3, 4, True)
    _, drawn = command("4x5", "3", "--taken", "0-6,9")
    assert drawn.count("×") == 8
    assert drawn.count("■") == 3


def test_first_fit_says_how_far_it_may_be_from_the_least() -> None:
    assert "26 hops over all pairs, no set has less than 25" in command("4x5", "6", "--rule", "first-fit")[1]
    assert json.loads(command("4x5", "6", "--rule", "quick", "--json")[1])["distance"] == 25


@pytest.mark.parametrize(("words", "said"), [
    (["4x", "3"], "ROWSxCOLUMNS"), (["4x5x6", "3"], "ROWSxCOLUMNS"), (["-4x5", "3"], ""),
    (["33x2", "3"], "ROWSxCOLUMNS: got 33"), (["2x33", "3"], "ROWSxCOLUMNS: got 33"), (["4x5", "0"], "CORES: got 0"),
    (["4x5", "21"], "CORES: got 21"), (["4x5", "2", "--taken", "20"], "--taken: got tile 20"),
    (["4x5", "2", "--taken", "1,1"], "more than once"), (["4x5", "2", "--taken", "a"], "--taken: got 'a'"),
    (["4x5", "2", "--taken", "0-99999"], "10 000"), (["4x5", "2", "--taken", "-3"], "--taken"),
    (["4x5", "2", "--taken", "0,5-3"], "from the lower to the higher"),
    (["4x5", "2", "--rule", "near"], "best, quick or first-fit"),
    (["4x5", "2", "--time-limit", "soon"], "wanted a time such as"),
    (["4x5", "2", "--rule", "quick", "--time-limit", "1 s"], "--rule best"),
])  # fmt: skip
def test_what_is_impossible_is_refused(words: list[str], said: str) -> None:
    code, text = command(*words)
    assert code == 2
    assert said in text
