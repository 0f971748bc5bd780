"""Workloads: readers, generators, filters; and what readers and generators of one's own are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.workload.filters import FILTERS as FILTERS
    from unrack.workload.filters import jitter as jitter
    from unrack.workload.formats.rules import Intake as Intake
    from unrack.workload.generate.batch.model import SYNTHETIC_CORES as SYNTHETIC_CORES
    from unrack.workload.generate.memory import match as match
    from unrack.workload.job import JobTable as JobTable
    from unrack.workload.job import job_table as job_table
    from unrack.workload.resample import draw_again as draw_again
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
