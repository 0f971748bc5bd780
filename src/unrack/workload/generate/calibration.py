"""The mean gap between arrivals that makes the load a specification asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.units import LONGEST_US, SECOND_US
from unrack.workload.generate.arrivals import Arrivals

_STEP = 1.05
_SLOWER = 60
_FASTER = 9
"""Steps tried towards faster arrivals: to half again the offered load. Beyond that the system is flooded so soon that
what is measured is an accident of the first jobs."""
_HALVINGS = 60


def gap_s(arrivals: Arrivals, units: Floats, seed: int, work_us: Ints, tasks: Ints, asked: Mapping[str, Ints]) -> float:
    """The mean gap, in s.

    Parameters
    ----------
    arrivals
        Which arrivals, and how much load.
    units : float64[jobs]
        The gaps that were drawn, in units of their mean.
    seed
        Of the workload.
    work_us, tasks : int64[jobs]
        Run times; tasks.
    asked
        Resource → int64[jobs], for each task.

    Raises
    ------
    InputError
        No job asks for what the load is of, or the fat node saturates below it.
    """
    if arrivals.given_gap_s is not None:
        return arrivals.given_gap_s
    assert arrivals.load is not None
    offered = 0.0
    for resource in arrivals.load_of:
        if resource not in asked:
            raise InputError(
                "generate, arrivals.load_of", repr(resource), f"one of {', '.join(asked)}: jobs ask for it"
            )
        mean = float((work_us / SECOND_US * tasks * asked[resource]).mean())
        offered = max(offered, mean / (arrivals.load * arrivals.capacity[resource]))
    if arrivals.load_on == "offered" or offered == 0:
        return offered
    return _measured_gap_s(arrivals, offered, units, seed, work_us, tasks, asked)


def _measured_gap_s(
    arrivals: Arrivals, offered: float, units: Floats, seed: int, work_us: Ints, tasks: Ints, asked: Mapping[str, Ints]
) -> float:
    """The gap at which the fat node runs at the load: the same draws at other rates, bisected."""
    from unrack.workload.ideal import mean_held, run_fat_node  # compiled kernels: loaded only where needed

    target, capacity = arrivals.load, arrivals.capacity
    assert target is not None

    def measured(gap_s: float) -> float:
        times_us = arrivals.times_s(units, gap_s, seed) * SECOND_US
        if times_us[-1] > LONGEST_US:
            raise InputError("generator, arrivals", f"{times_us[-1] / SECOND_US:g} s", "times within 285 years")
        submit = np.rint(times_us).astype(np.int64)
        start, end = run_fat_node(capacity, submit, work_us, tasks, asked)
        ran = end >= 0
        loads = [
            mean_held(start[ran], end[ran], (asked[resource] * tasks)[ran], submit) / capacity[resource]
            for resource in arrivals.load_of
        ]
        return max(loads)

    slow, fast = _bracket(measured, offered, target)
    for _ in range(_HALVINGS):
        middle = (slow + fast) / 2
        if measured(middle) < target:
            slow = middle
        else:
            fast = middle
    return fast


def _bracket(measured: Callable[[float], float], offered: float, target: float) -> tuple[float, float]:
    """A gap at which the load is below the target, and a smaller one at which it is not."""
    slow = offered
    if measured(offered) >= target:
        for _ in range(_SLOWER):
            slow *= _STEP
            if measured(slow) < target:
                break
        return slow, offered
    first = math.ceil(math.log(offered, _STEP)) - 1  # powers of the step: the same gaps whatever the target is
    for power in range(first, first - _FASTER, -1):
        fast = _STEP**power
        if measured(fast) >= target:
            return slow, fast
        slow = fast
    most = 0.0
    for power in range(first - _FASTER, first + _SLOWER):
        load = measured(_STEP**power)
        if load * _STEP ** (_FASTER - 2) >= target * offered / _STEP**power:  # within reach of whoever asks for it
            most = max(most, load)
    want = f"at most {math.floor(most * 1000) / 1000:g}: there the fat node saturates"
    raise InputError("generate, arrivals.load", f"{target:g} on the fat node", want)
