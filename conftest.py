"""Fixtures of all tests, and how much of them is tried."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

# What is started by tests need not read a thousand modules as text each time, wherever that is a machine's usual way.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("NUMBA_OPT", "1")  # before numba is loaded: half of the time of the suite is compiling

import pytest
from hypothesis import settings

sys.dont_write_bytecode = False
settings.register_profile("quick", deadline=None, derandomize=True, database=None)
settings.load_profile("quick")


FEW = 4
"""So many parameters of one test are always tried; of more, a fifth, chosen by their names."""
FEW_EXAMPLES = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--tries``."""
    tried = "some: of many parameters and drawn examples of a test a fifth, no long test; rest: the others; all"
    parser.addoption("--tries", choices=("some", "rest", "all"), default="some", help=tried)


def draws_many(item: pytest.Item, fewer: bool) -> bool:
    """Whether a test draws many examples, which are to be ``fewer``."""
    test: Any = getattr(item, "obj", None)
    drawn = getattr(test, "_hypothesis_internal_use_settings", None)  # no public way leads to it
    if drawn is None or drawn.max_examples <= FEW_EXAMPLES:
        return False
    if fewer and not hasattr(test, "_all_examples"):
        test._all_examples = drawn.max_examples
        some = max(FEW_EXAMPLES, drawn.max_examples // 5)
        test._hypothesis_internal_use_settings = settings(drawn, max_examples=some)
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not to be tried, which is the same on every machine."""
    tries = config.getoption("--tries")
    if tries == "all":
        return
    every = Counter(item.nodeid.partition("[")[0] for item in items)
    met, kept, left = Counter[str](), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        name = item.nodeid.partition("[")[0]
        met[name] += 1
        first = every[name] <= FEW or met[name] == 1 or crc32(item.nodeid.encode()) % 5 == 0
        first = first and item.get_closest_marker("long") is None
        again = first and draws_many(item, fewer=tries == "some")
        (kept if again or first == (tries == "some") else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real logs; the test is skipped, saying so, where it is absent."""
    path = Path(os.environ.get("UNRACK_DATA") or Path(__file__).parents[1] / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"real logs are not at {path}: set UNRACK_DATA to their folder")
    return path
