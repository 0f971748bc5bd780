"""Tests that measure on this machine do so one after the other, whatever processes run them."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def one_at_a_time() -> Iterator[None]:
    with Path(tempfile.gettempdir(), "unrack-tests-of-profiles.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
