"""Amounts as people write them, as the integers that unrack keeps.

Time is kept in whole microseconds, memory and storage in whole MB, bandwidth in whole MB/s. Demand is rounded up and
capacity down, once, where it enters.

Memory follows the habit of batch schedulers: K, M, G and T are powers of 1024, with or without "B" or "iB", so 1 GB =
1 GiB = 1024 MB (see ``docs/decisions/0002-units.md``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Literal

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
NEVER_US = 2**62
"""A time after everything; sums with any real time still fit in 64 bits."""

DATES_S = 600_000_000
"""Times of a log that are later than this are taken for seconds since 1970: 1989, before any log."""
LONGEST_US = 2**53
"""The longest time accepted from a user, about 285 years: exact in a float64 too."""

_TIME_US = {
    "us": 1, "µs": 1, "ms": 1_000, "s": SECOND_US, "sec": SECOND_US, "min": 60 * SECOND_US, "m": 60 * SECOND_US,
    "h": 3_600 * SECOND_US, "d": 86_400 * SECOND_US, "w": 7 * 86_400 * SECOND_US,
}  # fmt: skip
_MEMORY_MB = {"B": Decimal(1) / 2**20, "K": Decimal(1) / 1024, "M": Decimal(1), "G": Decimal(1024), "T": Decimal(2**20)}
_AMOUNT = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ]*)\s*")


def _split(text: str, what: str) -> tuple[Decimal, str]:
    match = _AMOUNT.fullmatch(text)
    try:
        if match is None:
            raise InvalidOperation
        return Decimal(match[1]), match[2]
    except InvalidOperation:
        raise ValueError(f"{text!r} is not {what}") from None


def time_us(value: float | str) -> int:
    """Microseconds in a time given as seconds or as text.

    Parameters
    ----------
    value
        A number of seconds, or text with a unit: us, ms, s, min (or m), h, d, w; parts may follow each other.

    Raises
    ------
    ValueError
        The text is not a time, is negative, or is over about 285 years.

    Examples
    --------
    >>> time_us(1.5), time_us("30 s"), time_us("1h 30min")
    (1500000, 30000000, 5400000000)
    """
    if isinstance(value, str):
        parts = re.findall(r"[^A-Za-zµ]+[A-Za-zµ]*", value)
        if not parts or "".join(parts) != value:
            raise ValueError(f"{value!r} is not a time (such as '30 s' or '1h 30min')")
        total = Decimal(0)
        for part in parts:
            amount, unit = _split(part, "a time (such as '30 s' or '1h 30min')")
            if (unit or "s") not in _TIME_US:
                raise ValueError(f"{unit!r} is not a unit of time ({', '.join(_TIME_US)})")
            total += amount * _TIME_US[unit or "s"]
        micro = float(total)
    else:
        micro = value * SECOND_US
    if not 0 <= micro <= LONGEST_US:
        raise ValueError(f"{value!r} is not a time from 0 to 285 years")
    return round(micro)


def memory_mb(value: float | str, rounding: Literal["up", "down"] = "up") -> int:
    """MB in an amount of memory given as MB or as text.

    Parameters
    ----------
    value
        A number of MB, or text with a unit: B, KB, MB, GB, TB (or KiB …: the same, powers of 1024).
    rounding
        ``"up"`` for a demand, ``"down"`` for a capacity.

    Raises
    ------
    ValueError
        The text is not an amount of memory, is negative, or is 2**42 MB or more.

    Examples
    --------
    >>> memory_mb("64 GiB"), memory_mb("90 GB"), memory_mb(12), memory_mb("1 KB")
    (65536, 92160, 12, 1)
    """
    if isinstance(value, str):
        amount, unit = _split(value, "an amount of memory (such as '64 GB')")
        match = re.fullmatch(r"(?:([KMGT])(?:i?B)?|(B))?", unit, re.IGNORECASE)
        if match is None:
            raise ValueError(f"{unit!r} is not a unit of memory (B, KB, MB, GB, TB)")
        amount *= _MEMORY_MB[(match[1] or match[2] or "M").upper()]
    elif isinstance(value, int) or math.isfinite(value):
        amount = Decimal(str(value))
    else:
        raise ValueError(f"{value!r} is not an amount of memory")
    if amount < 0 or amount >= 2**42:
        raise ValueError(f"{value!r} is not an amount of memory from 0 to 4 EB")
    return math.ceil(amount) if rounding == "up" else math.floor(amount)


_RATE_MB_S = {"B": Decimal(1) / 10**6, "K": Decimal(1) / 1000, "M": Decimal(1), "G": Decimal(1000), "T": Decimal(10**6)}


def bandwidth_mb_s(value: float | str, rounding: Literal["up", "down"] = "up") -> int:
    """MB/s in a bandwidth given as MB/s or as text; powers of 1000, as drives and networks are sold.

    Parameters
    ----------
    value
        A number of MB/s, or text with a unit: B/s, KB/s, MB/s, GB/s, TB/s, or in bits Kb/s, Mb/s, Gb/s, Tb/s.
    rounding
        ``"up"`` for a demand, ``"down"`` for a capacity.

    Raises
    ------
    ValueError
        The text is not a bandwidth, is negative, or is 2**42 MB/s or more.

    Examples
    --------
    >>> bandwidth_mb_s("2 GB/s"), bandwidth_mb_s("100 Gb/s"), bandwidth_mb_s(1800)
    (2000, 12500, 1800)
    """
    if isinstance(value, str):
        match = re.fullmatch(r"(.*?)(?:/s|ps)?\s*", value, re.DOTALL)
        amount, unit = _split(match[1] if match else value, "a bandwidth (such as '2 GB/s')")
        found = re.fullmatch(r"(?:([KMGT])i?([Bb])?|(B))?", unit)
        if found is None:
            raise ValueError(f"{unit!r} is not a unit of bandwidth (MB/s, GB/s, Gb/s)")
        amount *= _RATE_MB_S[found[1] or found[3] or "M"]
        if found[2] == "b":
            amount /= 8
    elif isinstance(value, int) or math.isfinite(value):
        amount = Decimal(str(value))
    else:
        raise ValueError(f"{value!r} is not a bandwidth")
    if amount < 0 or amount >= 2**42:
        raise ValueError(f"{value!r} is not a bandwidth from 0 to 4 EB/s")
    return math.ceil(amount) if rounding == "up" else math.floor(amount)


_POWER_MW = {"mW": 1, "W": 1000, "": 1000, "kW": 10**6, "MW": 10**9}


def milliwatts(value: float | str, rounding: Literal["up", "down"] = "up") -> int:
    """Milliwatts in a power given as watts or as text; at most a gigawatt.

    Raises
    ------
    ValueError
        The text is no power, is negative, or is more.

    Examples
    --------
    >>> milliwatts(3.5), milliwatts("350 W"), milliwatts("1.2 kW")
    (3500, 350000, 1200000)
    """
    amount, unit = _split(value, "a power (such as '350 W')") if isinstance(value, str) else (Decimal(str(value)), "W")
    if unit not in _POWER_MW:
        raise ValueError(f"{unit!r} is not a unit of power ({', '.join(filter(None, _POWER_MW))})")
    if not (amount.is_finite() and 0 <= amount * _POWER_MW[unit] <= 10**12):
        raise ValueError(f"{value!r} is not a power from 0 to 1000 MW")
    return (math.ceil if rounding == "up" else math.floor)(amount * _POWER_MW[unit])


def quantity(name: str, value: float | str, rounding: Literal["up", "down"] = "up") -> int:
    """A device quantity as the integer that is kept; the end of its name says its unit.

    Parameters
    ----------
    name
        ``…_mb_s``: a bandwidth; ``…_mb``: a size; anything else: a plain number.

    Raises
    ------
    ValueError
        The value is not such an amount.

    Examples
    --------
    >>> quantity("bandwidth_mb_s", "2 GB/s"), quantity("capacity_mb", "600 GB"), quantity("luts", 1200000)
    (2000, 614400, 1200000)
    """
    if name.endswith("_mb_s"):
        return bandwidth_mb_s(value, rounding)
    if name.endswith("_mb"):
        return memory_mb(value, rounding)
    if isinstance(value, str) or not 0 <= value < 2**42:
        raise ValueError(f"{value!r} is not a number from 0 to 2**42")
    return math.ceil(value) if rounding == "up" else math.floor(value)


def amount_of(
    read: Callable[[float | str], int], want: str, least: float = 0, most: float = math.inf
) -> Callable[[object], int]:
    """A check for models: the amount that ``read`` finds in a number or text; else a ValueError says what is wanted."""

    def checked(value: object) -> int:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            with suppress(ValueError):
                if least <= (amount := read(value)) <= most:
                    return amount
        raise ValueError(want)

    return checked


def clock_start(first_s: float) -> float:
    """From when times are counted of which this is the first: from 0, or from there if they are dates, s since 1970."""
    return first_s if first_s > DATES_S else 0.0


def seconds_text(seconds: float) -> str:
    """A time for people: ``"1 d 2 h"``, ``"3 min 20 s"``, ``"0.5 s"``."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    parts = []
    rest = round(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def time_unit(values_s: Iterable[float]) -> tuple[str, float]:
    """The unit in which to show these times, all of them, and the seconds in it.

    As the largest asks: seconds below 120 s, minutes below 120 min, hours below ten days, days from there. A smaller
    one where the smallest that is not 0 would be below 0.5, as long as the largest stays below 10 000.

    Examples
    --------
    >>> [time_unit([largest]) for largest in (119, 7199, 7200, 864_000)]
    [('s', 1.0), ('min', 60.0), ('h', 3600.0), ('d', 86400.0)]
    >>> time_unit([29.3, 0, 487_310]), time_unit([9_000, 972_900])
    (('min', 60.0), ('h', 3600.0))
    """
    sizes = sorted(abs(value) for value in values_s if value)
    smallest, largest = (sizes[0], sizes[-1]) if sizes else (0.0, 0.0)
    units = (("d", 86_400.0, 864_000.0), ("h", 3600.0, 7_200.0), ("min", 60.0, 120.0), ("s", 1.0, 0.0))
    fitting = [(unit, seconds) for unit, seconds, from_s in units if largest >= from_s]
    short = [own for own in fitting if largest < 1e4 * own[1]] or fitting[:1]
    return next((own for own in short if smallest >= 0.5 * own[1]), short[-1])
