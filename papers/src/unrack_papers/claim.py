"""Claims: a sentence of a paper, and how our numbers judge it.

Add seeds until claims are decided: they are judged again and again, and wrongly no more often for that.

Seeds are doubled from look to look, and a claim keeps the first verdict that it gets. The chance of a false one is
spent over the looks: 5 % / (j (j + 1)) at look j, which sums to 5 % over however many there are. So neither the looks
nor their levels depend on the budget: whoever raises it goes on as if it had been so high from the beginning.

References
----------
Lan and DeMets (1983), Discrete sequential boundaries for clinical trials, Biometrika 70.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from unrack import Estimate
from unrack.errors import InputError
from unrack_papers.measured import Measured
from unrack_papers.reproduction import X
from unrack_papers.verdict import (
    CHANCE,
    NOT_MEASURED,
    ON_ONE_STEP,
    ONLY_WITHIN,
    Ends,
    Looks,
    Verdict,
    chance_of,
    fewest_alike,
    interval,
    judge,
    negated,
    of_the_greatest,
)
from unrack_papers.within import mean_of, mirrored, sign_of

MORE = 1e-9
"""Least difference that counts as one: "fewer" is not "as many"."""


class Of(StrEnum):
    """Which of several numbers a check is about: all of them, or the one that is the greatest (least)."""

    EVERY = "every"
    GREATEST = "greatest"
    LEAST = "least"


class Check(NamedTuple):
    """One number that a claim is about, and where it should lie; or the most telling one of several.

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
    several
        All numbers of which ``value`` is one that is shown; empty: it is alone. Which one is the greatest is not known,
        and being chosen for its size does not make it surer.
    of
        Which of several the claim is about.
    steps
        It can have a few values only: that all seeds have the same one says little, if they are few.
    chance
        Of a false verdict on the claim.
    among
        How many numbers the claim is about.
    """

    subject: str
    where: str
    value: Estimate | None
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    exact: bool = False
    several: tuple[Estimate | None, ...] = ()
    of: Of = Of.EVERY
    steps: bool = False
    chance: float = CHANCE
    among: int = 1

    @property
    def verdict(self) -> Verdict:
        """As :func:`unrack_papers.verdict.judge` has it.

        Examples
        --------
        >>> Check("missed", "0.8", Estimate(5.0, 1.0, 20), high=5.5).verdict
        <Verdict.OPEN: 'cannot be judged'>
        """
        return self.judged()[0]

    @property
    def why(self) -> str:
        """Why it cannot be judged; ``""``: it can."""
        return self.judged()[1]

    @property
    def numbers(self) -> tuple[Estimate, ...]:
        """Those that were measured of the numbers that it is about."""
        return tuple(value for value in (self.several or (self.value,)) if value is not None)

    @property
    def wide(self) -> int:
        """How many numbers may differ: the greatest of several is one."""
        return max(len(self.numbers), 1) if self.of is Of.EVERY else 1

    def judged(self) -> tuple[Verdict, str]:
        """The verdict, and if there is none, why."""
        if not self.numbers:
            return Verdict.OPEN, NOT_MEASURED
        together = self.chance / self.among
        if self.of is Of.EVERY:
            each = [
                self._judged((value,), interval(value, self.exact, self.chance), interval(value, self.exact, together))
                for value in self.numbers
            ]
            return next(one for verdict in ORDER for one in each if one[0] is verdict)
        alone, all_of_them = (self._extreme(chance) for chance in (self.chance, together))
        return self._judged(self.numbers, alone, all_of_them)

    def _extreme(self, chance: float) -> Ends | None:
        """The interval of the greatest, or of the least."""
        if self.of is Of.GREATEST:
            return of_the_greatest(self.numbers, self.exact, chance)
        found = of_the_greatest([mirrored(value) for value in self.numbers], self.exact, chance)
        return None if found is None else negated(found)

    def _judged(self, values: Sequence[Estimate], alone: Ends | None, together: Ends | None) -> tuple[Verdict, str]:
        verdict, why = judge(alone, together, self.low, self.high)
        if verdict is Verdict.OPEN:
            limited = any(sign_of(value) for value in values) and alone is not None
            return verdict, ONLY_WITHIN if limited else why
        few = fewest_alike(self.chance if verdict is Verdict.AGREES else self.chance / self.among)
        if self.steps and not self.exact and any(value.half == 0 and value.count < few for value in values):
            return Verdict.OPEN, ON_ONE_STEP
        return verdict, why

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.where}: –"
        size = max(abs(self.value.mean), self.value.half)
        digits = 0 if size >= 1000 else 1 if size >= 10 else 2
        mean = f"{self.value.mean:,.{digits}f}".replace("-", "−")
        half = f" ± {self.value.half:,.{digits}f}" if self.value.count > 1 else ""
        return f"{self.where}: {sign_of(self.value)}{mean}{half}"


ORDER = (Verdict.DIFFERS, Verdict.OPEN, Verdict.AGREES)
"""The first of these that a number has is the verdict on all."""


class Finding(NamedTuple):
    """A claim judged: the verdict, and each number with its own."""

    verdict: Verdict
    checks: tuple[Check, ...]
    seeds: int = 0
    looked: bool = False
    """After how many seeds it was judged, and whether these were added until it was."""

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
        """Agrees if every number does; differs if any does, as one of so many; else it cannot be judged."""
        checks = tuple(self.checks(measured))
        exact, among = measured.reproduction.exact, sum(check.wide for check in checks)
        checks = tuple(
            check._replace(exact=check.exact or exact, chance=measured.chance, among=among) for check in checks
        )
        verdicts = {check.verdict for check in checks}
        verdict = next((one for one in ORDER if one in verdicts), Verdict.OPEN)
        return Finding(verdict, checks, measured.options.seeds, measured.looks is not None)


def _everywhere(check: Callable[[Measured, str, X], Check], groups: Sequence[str], xs: Sequence[X]) -> Checks:
    return lambda measured: [check(measured, group, x) for group in groups for x in xs]


def lies(label: str, row: str, groups: Sequence[str], xs: Sequence[X], low: float, high: float) -> Checks:
    """A quantity of a row lies between ``low`` and ``high`` at every place."""

    def check(measured: Measured, group: str, x: X) -> Check:
        subject, unit = _subject(measured, label)
        words = f"{_grouped(measured, group)}{row}, {subject}"
        value, steps = measured.at((group, x, row), label), measured.quantity(label).steps
        return Check(words, _where(measured, group, x), value, low, high, unit, steps=steps)

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
            steps = measured.quantity(label).steps
            yield Check(subject, f"from {start} to {end}", gap, low, high, _points(measured, label), steps=steps)

    return checks


def narrows(label: str, more: str, less: str, groups: Sequence[str], start: X, end: X, by: float = MORE) -> Checks:
    """From ``start`` to ``end`` on the axis, the gap between two rows narrows by at least ``by``."""

    def checks(measured: Measured) -> Iterable[Check]:
        for group in groups:
            wide, narrow = (measured.gaps((group, x, more), (group, x, less), label) for x in (start, end))
            pairs = zip(wide, narrow, strict=False)
            value = mean_of(None if a is None or b is None else a - b for a, b in pairs)
            subject = f"{_prefix(measured, group)}gap of {_subject(measured, label)[0]}, {more} less {less}, narrows"
            yield Check(subject, f"from {start} to {end}", value, by, math.inf, _points(measured, label))

    return checks


def largest_gap(label: str, more: str, less: str, group: str, xs: Sequence[X], at_least: float) -> Checks:
    """The largest gap between two rows on the axis is at least so large."""
    return lambda measured: [
        most_telling([_gap(label, more, less, at_least, math.inf, measured, group, x) for x in xs], Of.GREATEST)
    ]


def most_telling(checks: Sequence[Check], of: Of) -> Check:
    """One check in place of several: of the greatest (least) of their numbers, or of all; the first of equals is shown.

    Of all, the one furthest from 0 is shown. The range is that of the first.
    """

    def size(check: Check) -> float:
        if check.value is None:
            return -math.inf
        mean = check.value.mean
        return abs(mean) if of is Of.EVERY else mean if of is Of.GREATEST else -mean

    return max(checks, key=size)._replace(several=tuple(check.value for check in checks), of=of)


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
    steps = measured.quantity(label).steps
    return Check(subject, _where(measured, group, x), gap, low, high, _points(measured, label), steps=steps)


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


def until_decided(run: Callable[[int], Measured], looks: Looks) -> tuple[Measured, list[tuple[Claim, Finding]]]:
    """Add seeds until every claim has a verdict, or the budget is spent.

    Parameters
    ----------
    run
        Measures with so many seeds: those before, and more.
    looks
        When to look.

    Returns
    -------
    tuple
        What was measured with all seeds that were run, at the chance that the last look had left; and for each claim
        the verdict that it got first, or that it cannot be judged yet.

    Raises
    ------
    InputError
        The budget is less than the first look takes.
    """
    if looks.most < looks.first:
        wanted = f"{looks.first} or more: so many are run before claims are looked at for the first time"
        raise InputError("--until-decided", str(looks.most), wanted)
    findings: dict[int, Finding] = {}
    for look, seeds in enumerate(looks.seeds, 1):
        measured = replace(run(seeds), chance=chance_of(look), looks=looks)
        claims = measured.reproduction.claims
        findings |= {
            i: claim.judge(measured) for i, claim in enumerate(claims) if i not in findings or _open(findings[i])
        }
        if not any(_open(finding) and finding.why != NOT_MEASURED for finding in findings.values()):
            break
    return measured, [(claim, findings[i]) for i, claim in enumerate(claims)]


def _open(finding: Finding) -> bool:
    return finding.verdict is Verdict.OPEN
