"""Composition size and sharing as the authors' simulator averages them: over time, the floor of the mean at a moment.

Their means over the compositions in use are integer divisions. That is why their tables have 1.00 wherever a few
compositions of two are among many of one. While no composition is in use, their size counts as 1 and their sharing
as 0: only so do the rows of Table 4.5 come out, where devices are idle for a tenth of the time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.metric.pool_steps import pool_steps
from unrack.papers.reproduction import Numbers
from unrack.sim.simulate import Result
from unrack.units import SECOND_US


def floored_means(result: Result, window_us: tuple[int, int] | None, kind: str = "nvme") -> Numbers:
    """``floored_size_KIND`` and ``floored_sharing_KIND`` of a run; nothing without such devices or without a window."""
    devices = result.log.cluster.devices
    if window_us is None or kind not in devices.kinds:
        return {}
    steps = pool_steps(result.shares, kind, len(devices.of_kind(kind)))
    start, end = (time / SECOND_US for time in window_us)
    groups, used, sharers = (steps[name].to_numpy() for name in ("compositions", "devices_used", "sharers"))
    size, sharing = floored_averages(steps["time_s"].to_numpy(), groups, used, sharers, start, end)
    return {f"floored_size_{kind}": size, f"floored_sharing_{kind}": sharing}


def floored_averages(
    times: NDArray[np.float64],
    groups: NDArray[np.int64],
    used: NDArray[np.int64],
    sharers: NDArray[np.int64],
    start: float,
    end: float,
) -> tuple[float, float]:
    """Size and sharing from ``start`` to ``end``.

    Parameters
    ----------
    times : float64[steps]
        Rising; each holds until the next, the last one for ever.
    groups, used, sharers : int64[steps]
        Compositions in use from then on, their devices and their jobs.

    Examples
    --------
    Two compositions, of one and of two devices, for half of the time; nothing in the other half.

    >>> one = np.array
    >>> floored_averages(one([0.0, 5.0]), one([2, 0]), one([3, 0]), one([5, 0]), 0.0, 10.0)
    (1.0, 1.0)
    """
    lengths = np.diff(np.clip(np.append(times, np.inf), start, end))
    many = np.maximum(groups, 1)
    idle = (end - start) - float(lengths @ (groups > 0))
    return (float(lengths @ (used // many)) + idle) / (end - start), float(lengths @ (sharers // many)) / (end - start)
