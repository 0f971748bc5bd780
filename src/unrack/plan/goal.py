"""Goals: a metric, a comparison and a value, such as ``wait_s_p95 < 10 min``; and the trial of a system on a seed."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from unrack.errors import InputError, nearest
from unrack.metric.table import EVERY_METRIC, entry_of
from unrack.units import SECOND_US, seconds_text, time_us

COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
ROUNDING = 1e-9
"""A share of work served is met if it falls short by no more than this."""
COST = "cost"
"""What a system costs over the years: a goal may be on it, as on a metric."""
_ON_SEEDS = re.compile(
    r"(.*?)(?:\s+on\s+(?:at\s+least\s+)?([\d.]+\s*%?)\s+of\s+(?:all\s+|the\s+)?seeds)?"
    r"(?:\s*,?\s+(?:at|with)\s+([\d.]+\s*%?)\s+confidence)?\s*",
    re.IGNORECASE | re.DOTALL,
)
_GOAL = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(<=|>=|<|>|=<|=>|=|==)?\s*(.*?)\s*")
_OF_REFERENCE = re.compile(r"(.*?)\s*(%?)\s*of\s+(?:the\s+)?reference")


class Goal(NamedTuple):
    """What a system must reach on a seed."""

    metric: str  # its name; see ``unrack metrics``
    comparison: str  # ``"<"``, ``"<="``, ``">"`` or ``">="``
    value: float  # in the unit of the metric; with ``relative`` a share of what the reference has
    relative: bool = False  # whether the value is a share of the reference's, seed by seed
    unasked: bool = False  # not written: all work is to be served, unless something else is said
    # share, confidence: on which share of the seeds, and how sure, where the goal says so
    share: float | None = None
    confidence: float | None = None

    @property
    def low_is_good(self) -> bool:
        """True if less is better."""
        return self.comparison[0] == "<"

    def threshold(self, reference: float | None) -> float | None:
        """The value to be reached, in the unit of the metric; ``None``: the reference has none."""
        if not self.relative:
            return self.value
        return None if reference is None else self.value * reference

    def met(self, value: float | None, reference: float | None = None) -> bool:
        """True if a value reaches the goal; what is not defined reaches none.

        Examples
        --------
        >>> goal = read_goal("wait_s_p95 < 10 min")
        >>> goal.met(599.0), goal.met(600.0), goal.met(None)
        (True, False, False)
        """
        want = self.threshold(reference)
        if value is None or want is None or not math.isfinite(value):
            return False
        if self.metric == "served" and not self.low_is_good:
            value += ROUNDING
        return bool(COMPARISONS[self.comparison](value, want))

    def margin(self, value: float | None, reference: float | None = None) -> float | None:
        """By what share of the value to be reached a value is on the good side (above 0) or misses it (below 0).

        Examples
        --------
        >>> read_goal("wait_s_p95 < 10 min").margin(450.0), read_goal("served >= 80 %").margin(0.6)
        (0.25, -0.25)
        """
        want = self.threshold(reference)
        if value is None or want is None or not math.isfinite(value):
            return None
        gap = want - value if self.low_is_good else value - want
        return round(gap / abs(want), 12) if want else (0.0 if gap == 0 else math.copysign(math.inf, gap))

    def measured(self, value: float | None, reference: float | None = None) -> float | None:
        """What is compared with :attr:`value`: the value itself, or its share of the reference's."""
        if not self.relative:
            return value
        return None if value is None or not reference else value / reference

    def text(self, measured: float) -> str:
        """What :meth:`measured` gave, for people."""
        return f"{100 * measured:.4g} %" if self.relative else amount_text(self.metric, measured)

    def __str__(self) -> str:
        if self.relative:
            return f"{self.metric} {self.comparison} {100 * self.value:g} % of the reference"
        return f"{self.metric} {self.comparison} {amount_text(self.metric, self.value)}"


ALL_SERVED = Goal("served", ">=", 1.0, unasked=True)
"""Holds beside the goals unless one of them is on ``served``: a system that refuses work meets no goal on waits."""


def read_goal(text: str, where: str = "--goal") -> Goal:
    """A goal as people write it; an InputError if there is no such metric, no comparison, or no such value.

    ``METRIC < VALUE``, with ``<``, ``<=``, ``>`` or ``>=``. The value is in the unit of the metric, or has one:
    ``10 min``, ``99 %``; or it is a share of the reference: ``95 % of reference``. Then, where wanted,
    ``on 90 % of seeds``, ``at 95 % confidence``, or both.

    Examples
    --------
    >>> read_goal("wait_s_p95 < 10 min").value, str(read_goal("served>99%"))
    (600.0, 'served > 99 %')
    >>> str(read_goal("throughput_jobs_per_h >= 95 % of reference"))
    'throughput_jobs_per_h >= 95 % of the reference'
    >>> read_goal("wait_s_p95 < 10 min on 90 % of seeds, at 95 % confidence")[5:]
    (0.9, 0.95)
    """
    whole = _ON_SEEDS.fullmatch(text)
    assert whole is not None, "each of its parts may be missing"
    share = None if whole[2] is None else read_share(whole[2], f"{where} {text!r}")
    confidence = None if whole[3] is None else read_share(whole[3], f"{where} {text!r}", least=0.5)
    return _read_bare(whole[1], where, text)._replace(share=share, confidence=confidence)


def _read_bare(text: str, where: str, whole: str) -> Goal:
    found = _GOAL.fullmatch(text)
    if found is None or not found[2]:
        raise InputError(where, repr(whole), "METRIC < VALUE, such as 'wait_s_p95 < 10 min' or 'served > 99 %'")
    metric, sign, value = found[1], {"=<": "<=", "=>": ">="}.get(found[2], found[2]), found[3]
    if sign not in COMPARISONS:
        raise InputError(where, repr(whole), f"one of {', '.join(COMPARISONS)} between a metric and a value")
    if not known_metric(metric):
        raise InputError(where, f"the metric {metric!r}", nearest(metric, EVERY_METRIC))
    if not value:
        raise InputError(where, repr(whole), f"a value after {sign}")
    if share := _OF_REFERENCE.fullmatch(value):
        number = _plain(share[1], where, whole)
        return Goal(metric, sign, number / 100 if share[2] else number, relative=True)
    return Goal(metric, sign, _value(metric, value, where, whole))


def number_of(text: str) -> float:
    """A number, or one in front of %. Raises ValueError."""
    bare = text.strip()
    return float(bare[:-1]) / 100 if bare.endswith("%") else float(bare)


def read_share(text: str, where: str, least: float = 0.0) -> float:
    """A share from text; an InputError if it is none, or not above ``least`` and up to 1.

    Examples
    --------
    >>> read_share("90 %", "--share"), read_share("0.9", "--share")
    (0.9, 0.9)
    """
    try:
        value = number_of(text)
    except ValueError:
        value = -1.0
    if not least < value <= 1 or (least and value == 1):
        raise InputError(where, repr(text), f"a share above {least:g} and up to 1, such as 0.9 or '90 %'")
    return value


def known_metric(name: str) -> bool:
    """True if some run may have this metric; those of devices and resources carry names of the user's.

    Examples
    --------
    >>> known_metric("used_nvme"), known_metric("utilisation_cores"), known_metric("waits")
    (True, True, False)
    """
    return name == COST or entry_of(name) is not None


def _value(metric: str, text: str, where: str, whole: str) -> float:
    if text.endswith("%"):
        return _plain(text[:-1], where, whole) / 100
    try:
        if is_time(metric):
            return time_us(text) / SECOND_US
    except ValueError as error:
        raise InputError(where, repr(whole), f"a value of {metric}: {error}") from None
    return _plain(text, where, whole)


def _plain(text: str, where: str, whole: str) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise InputError(where, repr(whole), f"a number in place of {text.strip()!r}")


def is_time(metric: str) -> bool:
    """True if a metric is in seconds."""
    known = EVERY_METRIC.get(metric)
    return known is not None and known.unit == "s"


def is_share(metric: str) -> bool:
    """True if a metric is a share, 0 to 1."""
    known = entry_of(metric)
    return known is not None and known.is_share


def amount_text(metric: str, value: float) -> str:
    """A value of a metric for people.

    Examples
    --------
    >>> amount_text("wait_s_p95", 612.3), amount_text("served", 0.9932), amount_text("queue_length_max", 12345.0)
    ('10 min 12 s', '99.32 %', '12,345')
    """
    if is_time(metric):
        return seconds_text(value)
    if is_share(metric):
        return f"{100 * value:.4g} %"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def with_served(goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    """The goals, and that all work is served, unless they say what is to be served."""
    return goals if any(goal.metric == "served" for goal in goals) else (*goals, ALL_SERVED)


Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Trial:
    """What a system did on a seed: a table of metrics a workload, and those of the reference, if there is one."""

    values: tuple[Values, ...]
    reference: tuple[Values, ...] | None = None

    def of(self, goal: Goal, workload: int) -> tuple[float | None, float | None]:
        """The value and the reference's value of the metric of a goal."""
        reference = None if self.reference is None else self.reference[workload].get(goal.metric)
        return self.values[workload].get(goal.metric), reference

    def met(self, goal: Goal) -> bool:
        """True if the goal is met by every workload."""
        return all(goal.met(*self.of(goal, workload)) for workload in range(len(self.values)))

    def gap(self, goal: Goal, workload: int) -> float:
        """How far on the good side of the goal, in the unit of the metric; below 0: it is missed."""
        value, reference = self.of(goal, workload)
        want = goal.threshold(reference)
        if value is None or want is None or not math.isfinite(value):
            return -math.inf
        return want - value if goal.low_is_good else value - want


def mean_of(trial: Trial, metric: str) -> float | None:
    """The mean of a metric over workloads; ``None``: it is defined in none."""
    values = [value for one in trial.values if (value := one.get(metric)) is not None]
    return math.fsum(values) / len(values) if values else None


def shared_means(systems: Mapping[int, Sequence[Trial]], metric: str) -> dict[int, float]:
    """System → the mean of a metric on the seeds and workloads on which all of them have it.

    Systems that have it nowhere are left out; all are, where they have it nowhere together.

    Examples
    --------
    >>> few, many = ([Trial(({"wait": value},)) for value in values] for values in ([5, 9], [4, 8, None, 30]))
    >>> shared_means({3: few, 7: many, 9: []}, "wait")
    {3: 7.0, 7: 6.0}
    """
    found = {}
    for system, trials in systems.items():
        places = ((seed, at) for seed, trial in enumerate(trials) for at in range(len(trial.values)))
        every = {place: trials[place[0]].values[place[1]].get(metric) for place in places}
        if own := {place: value for place, value in every.items() if value is not None}:
            found[system] = own
    shared = sorted(set.intersection(*map(set, found.values()))) if found else []
    return {system: math.fsum(own[at] for at in shared) / len(shared) for system, own in found.items() if shared}
