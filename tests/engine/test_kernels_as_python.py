"""Kernels decide as plain Python what they decide as machine code."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256

import pytest
from law_worlds import attempts, begun, lending, mixed, plain, pooled
from numba import config

from unrack.sim.compiled import kinds
from unrack.units import NEVER_US

PLACES = {lending: "(memory=disaggregated)"}


def digest() -> str:
    """Of all starts, ends and places in a few worlds."""
    found = sha256()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kinds, "LEAST_JOBS", 0)
        for world in (plain, mixed, pooled, lending):
            for discipline in ("easy", "conservative", "slurm"):
                ran = begun(world(0)._replace(faults=()), discipline + PLACES.get(world, "")).run()
                found.update(repr(attempts(ran, NEVER_US)).encode())
    return found.hexdigest()


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_without_compilation_every_job_starts_and_ends_when_it_does_with_it() -> None:
    words = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", f"import {__name__}; print({__name__}.digest())"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == (digest(), "")
