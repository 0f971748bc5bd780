"""A real Slurm for tests that need one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from munge_service import why_not
from slurm_bed import Bed


def _made(**options: Any) -> tuple[Bed, Path]:
    if reason := why_not():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="unrack-bed-"))
    folder.chmod(0o755)  # jobs of other users read slurm.conf
    return Bed(folder, **options), folder


@pytest.fixture
def new_bed() -> Iterator[Callable[..., Bed]]:
    """Makes clusters with options of one's own, which are stopped after the test."""
    made: list[tuple[Bed, Path]] = []

    def make(**options: Any) -> Bed:
        made.append(_made(**options))
        return made[-1][0]

    yield make
    for bed, folder in made:
        bed.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def whole_bed() -> Iterator[Bed]:
    """The cluster behind ``bed``."""
    bed, folder = _made(
        partitions={"main": "", "left": "n[1-8]", "right": "n[9-16]"}, licences={"memMB": 65_536, "matlab": 4}, gpus=2
    )
    yield bed
    bed.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bed(whole_bed: Bed) -> Bed:
    """A cluster of 16 nodes for all tests, without jobs. Leave its nodes and its controller as you found them."""
    whole_bed.clear()
    return whole_bed
