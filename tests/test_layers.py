"""The house rules that a parser can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "unrack"
ROOMS = [
    {"units", "errors", "extras", "facts", "reasons", "jit", "kernels", "sealed", "steps", "vocabulary"},
    {"plugins"},
    {"slurm_text", "kubernetes_text"},
    {"resources"},
    {"cluster"},
    {"ledger"},
    {"workload"},
    {"view"},
    {"slowdown"},
    {"solver"},
    {"policy"},
    {"events"},
    {"core"},
    {"metric"},  # functions of result tables: see docs/decisions/0003-metrics-before-sim.md
    {"plots"},
    {"sim"},
    {"testing"},
    {"study"},
    {"live"},
    {"report"},
    {"plan"},
    {"profile"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
ENTRY = {"__init__", "__main__"}  # the public face looks into every room
FILES = sorted(SOURCE.rglob("*.py"))
HEAVY = {"altair", "pandas", "numpy", "numba", "polars", "scipy", "vl_convert", "jinja2"}


def room_of(parts: tuple[str, ...]) -> str:
    if parts[0] == "resources" and parts[-1] == "slowdown.py":  # what runs see of a resource, and clusters do not
        return "slowdown"
    return parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Modules of unrack that a file imports when it is loaded, or ever."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names if node.module == "unrack"}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("unrack.")}


def test_a_file_imports_only_rooms_above_its_own() -> None:
    wrong = []
    for path in FILES:
        room = room_of(path.relative_to(SOURCE).parts)
        for name in imported(path) if room not in ENTRY else ():
            other = name.split(".")[1]
            above = FLOOR.get(other, len(ROOMS)) - FLOOR[room]
            if not other.startswith("__") and (above > 0 or (above == 0 and other != room and FLOOR[room] > 0)):
                wrong.append(f"{path} imports {name}")
    assert wrong == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    banned = {"utils", "util", "helpers", "helper", "manager", "handler", "data", "info", "common", "misc"}
    assert [path for path in FILES if path.stem in banned] == []


def test_command_files_load_nothing_heavy_at_the_top() -> None:
    wrong = []
    for path in (SOURCE / "cli").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{path} imports {name} at the top" for name in names if name.split(".")[0] in HEAVY]
    assert wrong == []


def test_help_loads_nothing_heavy() -> None:
    code = f"import sys, unrack.cli.main; print(sorted({HEAVY | {'pydantic', 'rich'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_wall_clocks_and_random_state_stay_out_of_the_engine() -> None:
    for room in ("cluster", "policy", "sim", "slowdown", "metric", "workload"):
        for path in sorted((SOURCE / room).rglob("*.py")):
            text = path.read_text()
            for banned in (
                "import time\n",
                "time.time(",
                "datetime.now(",
                "import random\n",
                "np.random.seed",
                "np.random.rand",
            ):
                assert banned not in text, f"{path} uses {banned.strip()}"


def test_nothing_in_the_project_names_a_machine_or_a_registry() -> None:
    banned = ("/root/", "/home/", "://pypi", "://registry", "index-url", "localhost:")
    for pattern in ("src/**/*.py", "docs/**/*.md", "*.md", "*.toml", "*.txt", "Makefile", ".ci/run", "examples/*"):
        for path in ROOT.glob(pattern):
            if path.is_file():
                text = path.read_text(errors="replace")
                assert not [word for word in banned if word in text], path


THEIRS = re.compile(
    r"slurm|scontrol|squeue|sbatch|sacct|sshare|(?<![.\w])partition|\bqos\b|licen[cs]e|heterogeneous|kube|\bpods?\b|namespace",
    re.IGNORECASE,
)
"""Words of orchestrators."""


def test_the_driver_knows_no_orchestrator() -> None:
    rooms = {"additions", "driver", "fabric", "journal", "records", "wake", "watch"}
    for path in (SOURCE / "live" / "driver").rglob("*.py"):
        assert THEIRS.findall(path.read_text()) == [], path
        live = [name for name in imported(path) if name.startswith("unrack.live.")]
        assert [name for name in live if name.split(".")[2] not in rooms] == [], path


MOST_LINES, MOST_FILES, MOST_PARAMETERS = 400, 12, 12
HOUSE = 88_364
"""Lines of the package without ``live/`` and ``profile/``: it only gets fewer, but for a new engine beside those that
it replaces."""


@pytest.mark.parametrize("source", [SOURCE, ROOT / "papers" / "src"], ids=["unrack", "papers"])
def test_no_file_is_long(source: Path) -> None:
    lines = {str(path): len(path.read_text().splitlines()) for path in source.rglob("*.py")}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_no_folder_has_more_files_than_can_be_held_in_mind() -> None:
    files = Counter(path.parent for path in FILES if path.stem not in ENTRY)
    assert {str(folder): count for folder, count in files.items() if count > MOST_FILES} == {}


@pytest.mark.parametrize("source", [SOURCE, ROOT / "papers" / "src"], ids=["unrack", "papers"])
def test_no_kernel_takes_more_than_a_dozen_parameters(source: Path) -> None:
    wide = []
    for path in source.rglob("*.py"):
        for one in ast.walk(ast.parse(path.read_text())):
            if isinstance(one, ast.FunctionDef) and {"compiled", "inlined", "melted"} & set(
                map(ast.unparse, one.decorator_list)
            ):
                wide += [f"{path}, {one.name}"] * (len(one.args.args) > MOST_PARAMETERS)
    assert wide == []


def test_the_house_grows_no_more() -> None:
    house = [path for path in FILES if path.relative_to(SOURCE).parts[0] not in ("live", "profile")]
    lines = sum(len(path.read_text().splitlines()) for path in house)
    assert lines <= HOUSE


def test_what_draws_fewer_worlds_by_itself_is_marked_to_be_run_again_in_full() -> None:
    """With ``some(40)`` or ``seeds(40)`` a test is of a fifth of its worlds; all are run later if it says 40."""
    for path in (path for room in ("tests", "papers/tests") for path in (ROOT / room).rglob("test_*.py")):
        text = path.read_text()
        imported = " ".join(re.findall(r"^from tries import (.*)", text, re.MULTILINE))
        names = {"some", "seeds"} & {*imported.split(", ")}
        if not names:
            continue
        for test in ast.parse(text).body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                calls = [node for node in ast.walk(test) if isinstance(node, ast.Call)]
                drawn = {ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func) in names}
                said = {ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func).endswith("draws")}
                assert drawn <= said, f"{path.name}, {test.name}"
