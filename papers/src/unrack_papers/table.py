"""Every reproduction, by name."""

from __future__ import annotations

from unrack.errors import InputError, nearest
from unrack_papers import amaral, call, farshin, weng, yang, zacarias
from unrack_papers.reproduction import Reproduction

REPRODUCTIONS: dict[str, Reproduction] = {
    one.name: one for paper in (call, zacarias, farshin, amaral, weng, yang) for one in paper.REPRODUCTIONS
}


def find(name: str) -> Reproduction:
    """The reproduction of this name.

    Raises
    ------
    InputError
        There is none; the message suggests the nearest.
    """
    if name not in REPRODUCTIONS:
        raise InputError("reproduce", repr(name), nearest(name, REPRODUCTIONS))
    return REPRODUCTIONS[name]
