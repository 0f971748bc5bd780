"""Fixtures of all tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# What is started by tests need not read a thousand modules as text each time, wherever that is a machine's usual way.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("NUMBA_OPT", "1")  # before numba is loaded: half of the time of the suite is compiling

import pytest
from hypothesis import settings

sys.dont_write_bytecode = False
settings.register_profile("quick", deadline=None, derandomize=True, database=None)
settings.load_profile("quick")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real logs; the test is skipped, saying so, where it is absent."""
    path = Path(os.environ.get("UNRACK_DATA") or Path(__file__).parents[1] / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"real logs are not at {path}: set UNRACK_DATA to their folder")
    return path
