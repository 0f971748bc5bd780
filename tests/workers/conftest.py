"""The kinds of workers that are installed, opened once for all tests of a module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from unrack.study.workers.shared import Workers
from unrack.study.workers.table import open_workers, parse_on

ROOT = Path(__file__).parents[2]
NEEDS = {"processes": "multiprocessing", "dask": "distributed", "ray": "ray"}
KINDS = ["processes", "dask", pytest.param("ray", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """What ``--on`` says; the test is skipped where the extra is not installed."""
    pytest.importorskip(NEEDS[request.param])
    return str(request.param)


@pytest.fixture(scope="module")
def workers(kind: str) -> Iterator[Workers]:
    """Two workers, which can load what lies beside the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent)]))
        with open_workers(parse_on(kind), 2) as opened:
            yield opened
