"""Amounts of memory as Slurm writes them: ``4000M``, ``4Gn`` a node, ``16Gc`` a core, ``1.50T``."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Literal, NamedTuple

_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTP]?)i?B?([nc]?)", re.IGNORECASE)
_MB = {
    "": Decimal(1),
    "K": Decimal(1) / 1024,
    "M": Decimal(1),
    "G": Decimal(1024),
    "T": Decimal(2**20),
    "P": Decimal(2**30),
}
UNSAID = frozenset({"", "?", "n/a", "unknown", "none", "(null)"})


class Memory(NamedTuple):
    """An amount of memory, and what it is for.

    Attributes
    ----------
    mb
        MB, rounded up; 0 = all or none, as Slurm uses it.
    per
        ``"job"``, ``"node"`` or ``"core"``.
    """

    mb: int
    per: Literal["job", "node", "core"]


def memory(text: str, unit: str = "M") -> Memory | None:
    """An amount of memory; ``None`` = not said.

    Parameters
    ----------
    text
        A number, a letter for its unit, and ``n`` (of each node) or ``c`` (of each core).
    unit
        The unit of a number without one.

    Raises
    ------
    ValueError
        It is not an amount, or is 4 EB or more.

    Examples
    --------
    >>> memory("4Gn"), memory("16Gc"), memory("1.5G").mb, memory("123456K").mb, memory("?")
    (Memory(mb=4096, per='node'), Memory(mb=16384, per='core'), 1536, 121, None)
    """
    word = text.strip()
    if word.lower() in UNSAID:
        return None
    match = _AMOUNT.fullmatch(word)
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory such as 4Gn, 16Gc or 4000M")
    mb = math.ceil(Decimal(match[1]) * _MB[match[2].upper() or unit])
    if mb >= 2**42:
        raise ValueError(f"{text!r} is 4 EB of memory or more")
    per: dict[str, Literal["job", "node", "core"]] = {"": "job", "n": "node", "c": "core"}
    return Memory(mb, per[match[3].lower()])
