"""A fabric that breaks, for drills and tests: it refuses, stops half way, loses answers or takes its time, by seed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from threading import Lock, local
from typing import Protocol, runtime_checkable

from unrack.errors import InputError
from unrack.live.fabric.contract import Attachment, Between, Fabric, FabricError

STEPS_MAX = 4


class Break(StrEnum):
    """How an operation breaks: before it begins, between two of its steps, or after its end, unsaid."""

    REFUSE = "refuse"
    HALF = "half"
    LOSE = "lose"


@dataclass(frozen=True, slots=True)
class Breaks:
    """How often what breaks."""

    seed: int  # what decides, together with the operation and how often it was asked for, and nothing else
    # refuse, half, lose: The share of operations that break so: before they begin, between two steps, after their
    # end, unsaid. Default 0.
    refuse: float = 0.0
    half: float = 0.0
    lose: float = 0.0
    # slow, slow_s: The share of operations that take longer, and by how much, in s. Default 0.
    slow: float = 0.0
    slow_s: float = 0.0
    often: int = 3  # How often one operation breaks at most; then it works. Default: 3.

    def __post_init__(self) -> None:
        shares = (self.refuse, self.half, self.lose, self.slow)
        if not all(0 <= share <= 1 for share in shares) or self.refuse + self.half + self.lose > 1 or self.slow_s < 0:
            raise InputError("breaks", str(self), "shares of 0 to 1, those of what breaks at most 1 in all")


@runtime_checkable
class _Stepped(Protocol):
    between: Between


class BreakingFabric:
    """A fabric in front of another, which breaks some of what is asked of that.

    Parameters
    ----------
    inner
        What carries operations out; one that has ``between`` can be stopped half way, another loses its answer then.
    breaks
        How often what breaks.
    """

    def __init__(self, inner: Fabric, breaks: Breaks) -> None:
        self.inner, self.breaks = inner, breaks
        self._asked: dict[tuple[str, str], int] = {}
        self._guard = Lock()
        self._steps = local()
        if isinstance(inner, _Stepped):
            inner.between = self._step

    def attach(self, wanted: Attachment) -> None:
        """Attach, or break.

        Raises
        ------
        FabricError
            It broke, or the inner fabric did.
        """
        how = self._begin("attach", wanted.operation)
        self.inner.attach(wanted)
        self._end("attach", wanted.operation, how)

    def detach(self, operation: str) -> None:
        """Detach, or break.

        Raises
        ------
        FabricError
            It broke, or the inner fabric did.
        """
        how = self._begin("detach", operation)
        self.inner.detach(operation)
        self._end("detach", operation, how)

    def state(self) -> list[Attachment]:
        """What the inner fabric says; never breaks."""
        return self.inner.state()

    def _begin(self, verb: str, operation: str) -> Break | None:
        """Decide; wait or refuse, if that is it."""
        with self._guard:
            asked = self._asked[verb, operation] = self._asked.get((verb, operation), 0) + 1
        random = Random(f"{self.breaks.seed} {verb} {operation} {asked}")
        is_slow, draw, steps = random.random() < self.breaks.slow, random.random(), random.randint(1, STEPS_MAX)
        if is_slow:
            time.sleep(self.breaks.slow_s)
        self._steps.left = 0
        if asked > self.breaks.often:
            return None
        for how, share in zip(Break, (self.breaks.refuse, self.breaks.half, self.breaks.lose), strict=True):
            if draw < share:
                if how is Break.REFUSE:
                    raise FabricError(f"drill: {verb} {operation} is refused")
                self._steps.left = steps if how is Break.HALF else 0
                return how
            draw -= share
        return None

    def _end(self, verb: str, operation: str, how: Break | None) -> None:
        """Say that it broke, though it was done: its answer is lost, or it had fewer steps than it was to do."""
        if how is not None:
            raise FabricError(f"drill: the answer to {verb} {operation} is lost")

    def _step(self, step: str) -> None:
        left = getattr(self._steps, "left", 0)
        self._steps.left = left - 1
        if left == 1:
            raise FabricError(f"drill: stopped after {step!r}")
