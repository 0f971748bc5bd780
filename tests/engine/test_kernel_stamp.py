"""Machine code that was kept runs only for as long as all that it was made of is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from unrack.kernels.stamp import stamp
from unrack.sim.compiled import rounds
from unrack.sim.compiled.rounds import run_rounds

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

KERNEL = """
from unrack.jit import compiled
from elsewhere import GIVEN, part

@compiled
def kernel(value):
    return part(value) + GIVEN
"""
ELSEWHERE = """
from unrack.jit import inlined

GIVEN = {given}

@inlined
def part(value):
    return {part}
"""
CALL = "import of_kernels; print(of_kernels.kernel(1), sum(of_kernels.kernel.stats.cache_hits.values()))"


@pytest.mark.long
def test_what_changed_in_another_file_is_compiled_anew(tmp_path: Path) -> None:
    (tmp_path / "of_kernels.py").write_text(KERNEL)

    def said(given: int, part: str) -> list[int]:
        (tmp_path / "elsewhere.py").write_text(ELSEWHERE.format(given=given, part=part))
        found = subprocess.run(
            [sys.executable, "-B", "-c", CALL], cwd=tmp_path, check=True, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        )  # fmt: skip
        return [int(one) for one in found.stdout.split()]

    assert said(10, "value") == [11, 0]
    assert said(10, "value") == [11, 1]
    assert said(20, "value") == [21, 0]
    assert said(20, "2 * value") == [22, 0]
    (tmp_path / "of_kernels.py").write_text(KERNEL + "\n")
    os.utime(tmp_path / "of_kernels.py", (0, 0))
    assert said(20, "2 * value") == [22, 1]


def test_a_constant_of_the_engine_is_part_of_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    before = stamp(run_rounds.py_func)  # type: ignore[attr-defined]
    assert stamp(run_rounds.py_func) == before  # type: ignore[attr-defined]
    monkeypatch.setattr(rounds, "LATE_FINISH", rounds.LATE_FINISH + 1)
    assert stamp(run_rounds.py_func) != before  # type: ignore[attr-defined]
