"""``unrack init``: what it writes runs as it is, and nothing is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from unrack.errors import InputError
from unrack.policy.file import load_policy
from unrack.study.grid import load_study
from unrack.study.starters.files import StarterKind, example_files, examples, policy_files, study_file, write_files
from unrack.testing import LAWS, check_policy

ROOT = Path(__file__).parents[2]


def unrack(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unrack", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("kind", StarterKind)
def test_a_template_of_a_policy_keeps_every_law_as_it_is(kind: StarterKind, tmp_path: Path) -> None:
    first, test = write_files(policy_files("Mine", kind), tmp_path, force=False)
    assert (first.name, test.name) == ("Mine.py", "test_Mine.py")
    for spec in (f"{first}:Mine", str(first)):
        assert load_policy(spec).name == "Mine"
    assert check_policy(lambda: load_policy(f"{first}:Mine"), seeds=range(2)) == 2 * len(LAWS)
    assert "@NAME@" not in first.read_text() + test.read_text()


@pytest.mark.long
def test_a_policy_and_a_study_from_templates_run_together_and_the_policys_test_passes(tmp_path: Path) -> None:
    made = unrack("init", "policy", "Mine", "--kind", "placement", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "--policy Mine.py:Mine" in made.stdout
    assert unrack("init", "study", "small", folder=tmp_path).returncode == 0
    done = unrack("run", "small.toml", "--policy", "Mine.py:Mine", "--seed", 0, "--no-report", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Mine" in done.stdout
    tested = subprocess.run(
        [sys.executable, "test_Mine.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert tested.stdout == "Mine keeps every law\n", tested.stderr


def test_what_is_there_is_not_overwritten_unless_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_Mine.py").write_text("mine")
    refused = unrack("init", "policy", "Mine", folder=tmp_path)
    assert refused.returncode == 2
    assert "test_Mine.py: there already" in refused.stderr
    assert not (tmp_path / "Mine.py").exists(), "all files are written, or none"
    assert unrack("init", "policy", "Mine", "--force", folder=tmp_path).returncode == 0
    assert (tmp_path / "test_Mine.py").read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("policy", "my-policy"), ["'my-policy'", "my_policy"]),
        (("policy", "class"), ["'class'", "a name of Python"]),
        (("policy", "Mine", "--kind", "place"), ["'place'", "order, placement, discipline"]),
        (("study", "a/b"), ["'a/b'", "--out DIR"]),
        (("study", "--example", "nvm"), ["'nvm'", "'nvme' perhaps", "unrack init --list"]),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_sentence(
    arguments: tuple[str, ...], words: list[str], tmp_path: Path
) -> None:
    done = unrack("init", *arguments, folder=tmp_path)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_every_example_is_listed_with_what_it_asks(tmp_path: Path) -> None:
    lines = unrack("init", "--list", folder=tmp_path).stdout.splitlines()
    shipped = {path.stem for path in (ROOT / "examples").glob("*.toml")} | {"place", "slurm"}
    assert {line.split()[0] for line in lines if line} >= shipped
    assert set(examples()) == shipped
    assert all(example.summary for example in examples().values())


@pytest.mark.parametrize("name", sorted(examples()))
def test_every_example_can_be_copied_and_loaded_elsewhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, command = example_files(name, None)
    paths = write_files(texts, tmp_path, force=False)
    monkeypatch.chdir(tmp_path)
    assert "examples/" not in "".join(texts.values()) + command
    assert {word for word in command.split() if word.endswith(".toml")} <= set(texts)
    if name not in ("place", "slurm", "kth-sp2"):  # no studies; a log that is not there
        load_study(str(paths[0]))


def test_an_example_by_another_name_keeps_its_policies_beside_it(tmp_path: Path) -> None:
    done = unrack("init", "study", "mine", "--example", "my_policy", "--out", "new", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["mine.toml", "my_policy.py"]
    assert "cd new && unrack run mine.toml" in done.stdout
    assert load_study(str(tmp_path / "new" / "mine.toml")).runs


def test_a_study_is_called_what_it_is_written_to() -> None:
    (name, text), = study_file("small.toml").items()  # fmt: skip
    assert (name, tomllib.loads(text)["name"]) == ("small.toml", "small")
    with pytest.raises(InputError, match="letters, digits"):
        study_file("")


def test_a_wheel_has_the_examples_and_the_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = pytest.importorskip("hatchling.build", reason="needs hatchling, the build backend")
    monkeypatch.chdir(ROOT)
    wheel = tmp_path / build.build_wheel(str(tmp_path))
    names = zipfile.ZipFile(wheel).namelist()
    for path in (ROOT / "examples").rglob("*.toml"):
        assert f"unrack/examples/{path.relative_to(ROOT / 'examples')}" in names
    assert "unrack/study/starters/templates/order.py.txt" in names


def test_an_example_that_is_not_there_is_offered_as_a_copy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a study file \(TOML\); unrack init study --example nvme copies one"):
        load_study(tmp_path / "examples" / "nvme.toml")
    with pytest.raises(InputError, match=r"a study file \(TOML\)$"):
        load_study(tmp_path / "nvme.toml")
