"""Claims: a sentence of a paper, and how our numbers judge it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from unrack.papers.measured import Measured
from unrack.papers.reproduction import X
from unrack.papers.verdict import NOT_MEASURED, Verdict, judge
from unrack.report.setting import Estimate, estimate

MORE = 1e-9
"""Least difference that counts as one: "fewer" is not "as many"."""


class Check(NamedTuple):
    """One number that a claim is about, and where it should lie.

    Attributes
    ----------
    subject
        What is measured.
    where
        At which place.
    value
        Its mean over the seeds.
    low, high
        We agree between them, both included.
    unit
        Of the number.
    exact
        Nothing was drawn: the number is its own interval.
    """

    subject: str
    where: str
    value: Estimate | None
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    exact: bool = False

    @property
    def verdict(self) -> Verdict:
        """As :func:`unrack.papers.verdict.judge` has it.

        Examples
        --------
        >>> Check("missed", "0.8", Estimate(5.0, 1.0, 20), high=5.5).verdict
        <Verdict.OPEN: 'cannot be judged'>
        """
        return judge(self.value, self.low, self.high, self.exact)[0]

    @property
    def why(self) -> str:
        """Why it cannot be judged; ``""``: it can."""
        return judge(self.value, self.low, self.high, self.exact)[1]

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.where}: –"
        size = max(abs(self.value.mean), self.value.half)
        digits = 0 if size >= 1000 else 1 if size >= 10 else 2
        mean = f"{self.value.mean:,.{digits}f}".replace("-", "−")
        half = f" ± {self.value.half:,.{digits}f}" if self.value.count > 1 else ""
        return f"{self.where}: {mean}{half}"


class Finding(NamedTuple):
    """A claim judged: the verdict, and each number with its own."""

    verdict: Verdict
    checks: tuple[Check, ...]

    @property
    def why(self) -> str:
        """Why it cannot be judged, each reason once; ``""``: it can."""
        reasons = dict.fromkeys(check.why for check in self.checks if check.why) or {NOT_MEASURED: None}
        return ", ".join(reasons) if self.verdict is Verdict.OPEN else ""

    def by_subject(self) -> dict[str, list[Check]]:
        """The checks, under what they measure, with its unit."""
        found: dict[str, list[Check]] = {}
        for check in self.checks:
            found.setdefault(check.subject + (f" ({check.unit})" if check.unit else ""), []).append(check)
        return found


Checks = Callable[[Measured], Iterable[Check]]


@dataclass(frozen=True)
class Claim:
    """A claim.

    Attributes
    ----------
    sentence
        What is claimed, in our words, with the margins that we judge it by.
    source
        Where: a section, table or figure.
    checks
        The numbers it is about.
    """

    sentence: str
    source: str
    checks: Checks

    def judge(self, measured: Measured) -> Finding:
        """Agrees if every number does; differs if any does; else it cannot be judged."""
        checks = tuple(self.checks(measured))
        if measured.reproduction.exact:
            checks = tuple(check._replace(exact=True) for check in checks)
        verdicts = {check.verdict for check in checks}
        order = (Verdict.DIFFERS, Verdict.OPEN, Verdict.AGREES)
        return Finding(next((one for one in order if one in verdicts), Verdict.OPEN), checks)


def _everywhere(check: Callable[[Measured, str, X], Check], groups: Sequence[str], xs: Sequence[X]) -> Checks:
    return lambda measured: [check(measured, group, x) for group in groups for x in xs]


def lies(label: str, row: str, groups: Sequence[str], xs: Sequence[X], low: float, high: float) -> Checks:
    """A quantity of a row lies between ``low`` and ``high`` at every place."""

    def check(measured: Measured, group: str, x: X) -> Check:
        subject, unit = _subject(measured, label)
        words = f"{_grouped(measured, group)}{row}, {subject}"
        return Check(words, _where(measured, group, x), measured.at((group, x, row), label), low, high, unit)

    return _everywhere(check, groups, xs)


def exceeds(
    label: str, more: str, less: str, groups: Sequence[str], xs: Sequence[X], by: float = MORE, share: float = 1.0
) -> Checks:
    """``share`` × the quantity of one row exceeds that of another by at least ``by`` at every place."""
    return _everywhere(partial(_gap, label, more, less, by, math.inf, share=share), groups, xs)


def close(label: str, one: str, other: str, groups: Sequence[str], xs: Sequence[X], by: float) -> Checks:
    """The quantity of two rows differs by at most ``by`` at every place."""
    return _everywhere(partial(_gap, label, one, other, -by, by), groups, xs)


def changes(label: str, row: str, groups: Sequence[str], start: X, end: X, low: float, high: float) -> Checks:
    """From ``start`` to ``end`` on the axis, a row's quantity changes by between ``low`` and ``high``."""

    def checks(measured: Measured) -> Iterable[Check]:
        for group in groups:
            gap = measured.gap((group, end, row), (group, start, row), label)
            subject = f"{_prefix(measured, group)}{row}, {_subject(measured, label)[0]}"
            yield Check(subject, f"from {start} to {end}", gap, low, high, _points(measured, label))

    return checks


def narrows(label: str, more: str, less: str, groups: Sequence[str], start: X, end: X, by: float = MORE) -> Checks:
    """From ``start`` to ``end`` on the axis, the gap between two rows narrows by at least ``by``."""

    def checks(measured: Measured) -> Iterable[Check]:
        for group in groups:
            wide, narrow = (measured.gaps((group, x, more), (group, x, less), label) for x in (start, end))
            pairs = zip(wide, narrow, strict=False)
            value = estimate(None if a is None or b is None else a - b for a, b in pairs)
            subject = f"{_prefix(measured, group)}gap of {_subject(measured, label)[0]}, {more} less {less}, narrows"
            yield Check(subject, f"from {start} to {end}", value, by, math.inf, _points(measured, label))

    return checks


def largest_gap(label: str, more: str, less: str, group: str, xs: Sequence[X], at_least: float) -> Checks:
    """The largest gap between two rows on the axis is at least so large."""

    def checks(measured: Measured) -> Iterable[Check]:
        gaps = [_gap(label, more, less, at_least, math.inf, measured, group, x) for x in xs]
        known = [gap for gap in gaps if gap.value is not None]
        return [max(known, key=lambda gap: gap.value.mean if gap.value else 0.0)] if known else gaps[:1]

    return checks


def wherever(groups: Sequence[str], make: Callable[[list[str], Sequence[X]], Checks]) -> Checks:
    """Checks of each group at the places that it has: ``make`` is given the group alone, and its places."""
    return lambda measured: [one for group in groups for one in make([group], measured.xs(group))(measured)]


def together(*several: Checks) -> Checks:
    """All of several."""
    return lambda measured: [check for one in several for check in one(measured)]


def _gap(
    label: str, more: str, less: str, low: float, high: float, measured: Measured, group: str, x: X, share: float = 1.0
) -> Check:
    scaled = "" if share == 1 else f"{share:g} × "
    subject = f"{_grouped(measured, group)}{_subject(measured, label)[0]}, {scaled}{more} less {less}"
    gap = measured.gap((group, x, more), (group, x, less), label, share)
    return Check(subject, _where(measured, group, x), gap, low, high, _points(measured, label))


def _subject(measured: Measured, label: str) -> tuple[str, str]:
    """The quantity in words, and its unit."""
    unit = measured.quantity(label).unit
    return label.removeprefix("% ") if unit == "%" else label, unit


def _points(measured: Measured, label: str) -> str:
    unit = measured.quantity(label).unit
    return "points" if unit == "%" else unit


def _prefix(measured: Measured, group: str) -> str:
    return f"{group}, " if len(measured.groups) > 1 else ""


def _grouped(measured: Measured, group: str) -> str:
    """The group before what is measured, where places need more than it to be told apart."""
    return _prefix(measured, group) if len(measured.xs(group)) > 1 else ""


def _where(measured: Measured, group: str, x: X) -> str:
    """The place, as far as the group has not told it."""
    return group if len(measured.xs(group)) == 1 and len(measured.groups) > 1 else str(x)
