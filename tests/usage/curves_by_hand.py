"""Curves of memory use from points, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.workload.usage.curves import WHOLE, UsageCurves, check_curves, starts


def usage_curves(jobs: Sequence[Sequence[Sequence[tuple[float, float]]]]) -> UsageCurves:
    """Curves from points (progress from 0 to 1, MB) for each curve of each job; MB are rounded up.

    Columns that are no curves are refused.
    """
    points = [points for job in jobs for points in job]
    found = UsageCurves(
        starts(np.array([len(job) for job in jobs], np.int64)),
        starts(np.array([len(one) for one in points], np.int64)),
        np.array([round(at * WHOLE) for one in points for at, _ in one], np.int64),
        np.array([-int(-mb // 1) for one in points for _, mb in one], np.int64),
    )
    check_curves(found)
    return found
