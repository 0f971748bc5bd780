"""In which world the jobs of a row run: that of the study, or one without models and contention."""

from __future__ import annotations

import re
from enum import StrEnum

from unrack.errors import PolicyError


class RunTimes(StrEnum):
    """A world: what decides how fast jobs run."""

    STUDY = "study"  # with the study's performance models and contention: every row, unless it says otherwise
    BASE = "base"  # without: jobs run their base times, and every amount that they ask is a hard limit


_WRITTEN = re.compile(r"""(.*\S)\s*,\s*world\s*=\s*["']?([^"'\s=,()]*)["']?\s*""", re.DOTALL)


def split_world(text: str) -> tuple[str, RunTimes]:
    """A policy as written, without its world; and its world.

    Examples
    --------
    >>> split_world("first-fit(order=sjf), world=base")
    ('first-fit(order=sjf)', <RunTimes.BASE: 'base'>)
    >>> split_world("first-fit")
    ('first-fit', <RunTimes.STUDY: 'study'>)
    """
    found = _WRITTEN.fullmatch(text)
    return (text, RunTimes.STUDY) if found is None else (found[1], make_world(found[2]))


def make_world(value: object) -> RunTimes:
    """A world from what a study says; a PolicyError if there is none such."""
    if value not in tuple(RunTimes):
        want = "'study' (the study's models and contention, the default) or 'base' (without: jobs run their base times)"
        raise PolicyError("world", repr(value), want)
    return RunTimes(str(value))


def labelled(label: str, world: str) -> str:
    """A label that says the world, where that is not the study's.

    Examples
    --------
    >>> labelled("first-fit", "base"), labelled("first-fit, world=base", "base"), labelled("easy", "study")
    ('first-fit, world=base', 'first-fit, world=base', 'easy')
    """
    end = f", world={world}"
    return label if world == RunTimes.STUDY or label.endswith(end) else label + end


def world_of(label: str) -> RunTimes:
    """The world that a label says.

    Examples
    --------
    >>> world_of("first-fit, world=base"), world_of("first-fit")
    (<RunTimes.BASE: 'base'>, <RunTimes.STUDY: 'study'>)
    """
    return next((world for world in RunTimes if label.endswith(f", world={world}")), RunTimes.STUDY)
