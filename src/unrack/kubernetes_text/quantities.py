"""Quantities as Kubernetes writes them: ``7910m`` of a core, ``32Gi`` of memory, ``4``."""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?(?:([eE][+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)")
_FACTOR = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}  # fmt: skip


def quantity(value: object) -> Fraction:
    """The number that a quantity stands for: cores, bytes or pieces.

    Raises
    ------
    ValueError
        It is not a quantity, or is 2**62 or more.

    Examples
    --------
    >>> quantity("7910m"), quantity("32Gi") == 32 * 2**30, quantity("1.5"), quantity(4), quantity("1e3")
    (Fraction(791, 100), True, Fraction(3, 2), Fraction(4, 1), Fraction(1000, 1))
    """
    match = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is not None:
        whole, part, power, unit = match.groups()
        number = Fraction(f"{whole}.{part or 0}{power or ''}") * _FACTOR[unit or ""]
        if number < 2**62:
            return number
    raise ValueError(f"{str(value)[:60]!r} is not a quantity such as 500m, 4 or 32Gi")
