"""Resources as Slurm writes them: ``cpu=8,gres/gpu:a100=2,mem=64G,node=2``, and GRES such as ``gpu:a100:2(S:0-1)``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
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
NOTHING = frozenset({"", "(null)", "n/a", "none", "unknown"})
_COUNT = re.compile(r"([0-9]{1,12})([KMGTP]?)", re.IGNORECASE)
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_MOST = 2**42


@dataclass
class Tres:
    """What a string of trackable resources says."""

    # cpus, nodes, mem_mb: ``None`` = not said
    cpus: int | None = None
    nodes: int | None = None
    mem_mb: int | None = None
    # name → how many, such as ``gpu``; its types are not counted again
    gres: dict[str, int] = field(default_factory=dict)
    # name → type → how many, such as ``gpu`` → ``a100`` → 2
    types: dict[str, dict[str, int]] = field(default_factory=dict)
    licences: dict[str, int] = field(default_factory=dict)  # name → how many


def tres(text: str) -> Tres:
    """Read a string of trackable resources, as of ReqTRES, AllocTRES and CfgTRES.

    What counts nothing a job holds (billing, energy, pages, file systems) is passed over. A ValueError if it is not a
    such string.

    Examples
    --------
    >>> tres("billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,license/matlab=1,mem=64G,node=2")
    Tres(cpus=8, nodes=2, mem_mb=65536, gres={'gpu': 2}, types={'gpu': {'a100': 2}}, licences={'matlab': 1})
    """
    found = Tres()
    if text.strip().lower() in NOTHING:
        return found
    totals: dict[str, int] = {}
    for part in text.strip().rstrip(",").split(","):
        key, equals, value = part.strip().partition("=")
        if part.endswith("+"):
            raise ValueError(f"{part!r} is not whole, such as cpu=8: it was cut off (--parsable2 cuts nothing)")
        if not equals:
            raise ValueError(f"{part!r} is not a resource such as cpu=8 or gres/gpu:a100=2")
        kind, slash, name = key.partition("/")
        if key == "cpu":
            found.cpus = _count(value, part)
        elif key == "node":
            found.nodes = _count(value, part)
        elif key == "mem":
            amount = memory(value)
            found.mem_mb = None if amount is None else amount.mb
        elif slash and kind in ("gres", "license"):
            number = _count(value, part)
            if kind == "license":
                found.licences[name] = number
            elif ":" in name:
                of, _, type_ = name.partition(":")
                found.types.setdefault(of, {})[type_] = number
            else:
                totals[name] = number
    typed = {name: sum(types.values()) for name, types in found.types.items()}
    found.gres = {name: totals.get(name, typed.get(name, 0)) for name in {**totals, **typed}}
    return found


def gres(text: str) -> Tres:
    """Read a list of generic resources, as of Gres, ReqGRES and TresPerNode: ``gpu:a100:2(S:0-1),gres/nvme:4``.

    A ValueError if it is not a such list.

    Examples
    --------
    >>> gres("gpu:a100:2(S:0-1),nvme:no_consume:4,gpu:1").gres, gres("gres:gpu:2").gres, gres("gres/gpu=2").gres
    ({'gpu': 3, 'nvme': 4}, {'gpu': 2}, {'gpu': 2})
    """
    found = Tres()
    bare = re.sub(r"\([^()]*\)", "", text.strip())
    if text.strip().lower() in NOTHING or bare in ("0", ""):
        return found
    for part in bare.rstrip(",").split(","):
        words = re.sub(r"^(PER_NODE:)?(gres[:/])?", "", part.strip()).replace("=", ":").split(":")
        words = [word for word in words if word != "no_consume"]
        if not words or not words[0] or len(words) > 3:
            raise ValueError(f"{part!r} is not a generic resource such as gpu:a100:2")
        name = words[0]
        counted = len(words) > 1 and _COUNT.fullmatch(words[-1]) is not None
        number = _count(words[-1], part) if counted else 1
        kind = words[1] if len(words) == 3 or (len(words) == 2 and not counted) else ""
        found.gres[name] = found.gres.get(name, 0) + number
        if kind:
            types = found.types.setdefault(name, {})
            types[kind] = types.get(kind, 0) + number
    return found


def licences(text: str) -> dict[str, int]:
    """Licences and how many of each: ``matlab:20,ansys*4,comsol@server:2``.

    A ValueError if it is not a such list.

    Examples
    --------
    >>> licences("matlab:20,ansys*4,idl"), licences("(null)")
    ({'matlab': 20, 'ansys': 4, 'idl': 1}, {})
    """
    if text.strip().lower() in NOTHING:
        return {}
    found: dict[str, int] = {}
    for part in re.split(r"[,;|]", text.strip().rstrip(",")):
        match = re.fullmatch(r"([\w.@+-]+?)(?:[:*=]([0-9]{1,12}))?", part.strip())
        if match is None:
            raise ValueError(f"{part!r} is not a licence such as matlab:20")
        found[match[1]] = found.get(match[1], 0) + int(match[2] or 1)
    return found


def _count(text: str, part: str) -> int:
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{part!r} is not a number of something such as gres/gpu=2")
    number = int(match[1]) * _FACTOR[match[2].upper()]
    if number >= _MOST:
        raise ValueError(f"{part!r} is too many")
    return number


class Memory(NamedTuple):
    """An amount of memory, and what it is for."""

    mb: int  # MB, rounded up; 0 = all or none, as Slurm uses it
    per: Literal["job", "node", "core"]  # ``"job"``, ``"node"`` or ``"core"``


def memory(text: str, unit: str = "M") -> Memory | None:
    """An amount of memory; ``None`` = not said.

    ``text``: a number, a letter for its unit, and ``n`` (of each node) or ``c`` (of each core); ``unit``: the unit of a
    number without one. A ValueError if it is not an amount, or is 4 EB or more.

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
