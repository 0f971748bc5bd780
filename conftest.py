"""Fixtures of all tests, and how much of them is tried."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# What is started by tests need not read a thousand modules as text each time, wherever that is a machine's usual way.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Workers of tests are told the width of a terminal that they have not.
os.environ.pop("COLUMNS", None)
# Half of the time of the suite is compiling. Kernels that are not optimised are slow: nothing else is to find them.
os.environ.setdefault("NUMBA_OPT", "0")
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "kernels"))

import pytest
from tries import begin, chosen, go_on

sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--tries``."""
    tried = (
        "some: of many parameters and drawn examples of a test a fifth or a tenth, no long test; "
        "rest: the others, but of many that differ by their seed alone every other, and a third of the examples; all"
    )
    parser.addoption("--tries", choices=("some", "rest", "all"), default="some", help=tried)


def pytest_configure(config: pytest.Config) -> None:
    """Tests are imported after this."""
    begin(config.getoption("--tries"))


def pytest_collection_finish() -> None:
    """What all tests need is not looked through for garbage again and again."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not to be tried, which is the same on every machine."""
    tries = config.getoption("--tries")
    if tries == "all":
        return
    taken = chosen(tries, items)
    left = [item for item, is_taken in zip(items, taken, strict=True) if not is_taken]
    items[:] = [item for item, is_taken in zip(items, taken, strict=True) if is_taken]
    config.hook.pytest_deselected(items=left)
    if tries == "rest":
        go_on(items)


@pytest.fixture(autouse=True, scope="session")
def _no_further_processes() -> Iterator[None]:
    """A command that is called in this process, without ``--jobs``, starts no others, which load everything first."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "cpu_count", lambda: 1)
        yield


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real logs; the test is skipped, saying so, where it is absent."""
    path = Path(os.environ.get("UNRACK_DATA") or Path(__file__).parents[1] / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"real logs are not at {path}: set UNRACK_DATA to their folder")
    return path
