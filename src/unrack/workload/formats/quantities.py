"""Columns of text or numbers, turned into the integers that unrack keeps; every refusal names the row and the field."""

from __future__ import annotations

import re
from fractions import Fraction

import polars as pl

from unrack.errors import InputError
from unrack.units import LONGEST_US, time_us
from unrack.workload.formats.source import Locator

MOST = 10**9
"""The largest number of tasks, cores or processors accepted."""

MOST_MB = 2**42
"""Memory (and any device quantity) must be below this."""

TIME_UNITS_US = {unit: time_us(f"1 {unit}") for unit in ("us", "ms", "s", "min", "h", "d")}
MEMORY_UNITS_MB = {unit: Fraction(1024) ** power for power, unit in enumerate(("B", "KB", "MB", "GB", "TB"), -2)}


def time_unit_us(unit: str | float) -> Fraction:
    """Microseconds in a unit of time: a name (us, ms, s, min, h, d) or a number of seconds.

    Raises
    ------
    InputError
        It is neither.
    """
    if isinstance(unit, str) and unit in TIME_UNITS_US:
        return Fraction(TIME_UNITS_US[unit])
    if isinstance(unit, (int, float)) and not isinstance(unit, bool) and 1e-9 <= unit <= 1e9:
        return Fraction(str(unit)) * 1_000_000
    raise InputError("option time_unit", repr(unit), f"one of {', '.join(TIME_UNITS_US)}, or a number of seconds")


def memory_unit_mb(unit: str) -> Fraction:
    """MB in a unit of memory: B, KB, MB, GB, TB (powers of 1024; KiB and so on are the same).

    Raises
    ------
    InputError
        It is not one of them.
    """
    name = unit.replace("iB", "B") if isinstance(unit, str) else ""
    if name not in MEMORY_UNITS_MB:
        raise InputError("option memory_unit", repr(unit), f"one of {', '.join(MEMORY_UNITS_MB)}")
    return MEMORY_UNITS_MB[name]


def refuse(bad: pl.Series, values: pl.Series, field: str, at: Locator, want: str, *, promise: bool = False) -> None:
    """Raise a :class:`~unrack.errors.TraceError` about the rows where the mask ``bad`` holds, if there are any.

    ``promise``: what is at fault is a promise, so that the rows must not be left out.
    """
    rows = bad.fill_null(False).arg_true().to_list() if bad.any() else []
    if rows:
        got = shown(values[rows[0]])
        raise at.fault(rows[0], field, got, want) if promise else at.faults(rows, field, got, want)


def shown(value: object) -> str:
    """A value from a file as an error message shows it: quoted where it is text, and not too long."""
    text = str(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return repr(text) if isinstance(value, str) else text


DEVICE_KEY = re.compile(r"^(?!(site|power)\.)[A-Za-z][\w-]*\.[A-Za-z]\w*$")
"""``KIND.QUANTITY``, as jobs may ask; what they ask of a site and of its power is worked out."""

MISSING = ("", "NA", "N/A", "na", "null", "NULL", "None", "NaN", "nan", "-")
"""Text that stands for nothing in a table."""


def said(values: pl.Series) -> pl.Series:
    """Text without blanks around it; null where it says that there is nothing."""
    text = values.str.strip_chars()
    return text.set(text.is_in(MISSING).fill_null(True), None)


def typed(values: pl.Series) -> pl.Series:
    """A text column as Int64 where every entry is a plain whole number, else as it is; empty text is null."""
    values = values.set((values == "").fill_null(False), None)
    if values.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").fill_null(True).all():
        return values.cast(pl.Int64)
    return values


def numbers(values: pl.Series, field: str, at: Locator, *, nan_is_missing: bool = False) -> pl.Series:
    """Int64 where all are whole numbers that fit, else Float64; null where missing.

    Parameters
    ----------
    values
        Text or numbers.
    field, at
        What the column is called, and where its rows are, in errors.
    nan_is_missing
        NaN stands for "missing" (as in tables) and is not an error.

    Raises
    ------
    TraceError
        A value is not a finite number.
    """
    want = "a number"
    if values.dtype == pl.String:
        text = values.str.strip_chars()
        result = text.cast(pl.Int64, strict=False)
        if result.null_count() > text.null_count():
            result = text.cast(pl.Float64, strict=False)
            refuse(result.is_null() & text.is_not_null(), values, field, at, want)
    elif values.dtype.is_integer():
        result = values.cast(pl.Int64, strict=False)
        refuse(result.is_null() & values.is_not_null(), values, field, at, "a number below 2**63")
    elif values.dtype.is_float() or values.dtype.is_decimal():
        result = values.cast(pl.Float64)
    elif values.dtype == pl.Null:
        return values.cast(pl.Int64)
    else:
        raise at.source.fault(None, field, f"a column of {values.dtype}", "a column of numbers")
    if result.dtype == pl.Float64:
        if nan_is_missing:
            result = result.fill_nan(None)
        refuse(~result.is_finite(), values, field, at, want)
    return result


def whole(values: pl.Series, field: str, at: Locator, *, most: int = MOST) -> pl.Series:
    """Int64 of the numbers that :func:`numbers` gave.

    Raises
    ------
    TraceError
        A value is not whole, or its size is over ``most``.
    """
    if values.dtype == pl.Float64:
        refuse(values != values.floor(), values, field, at, "a whole number")
    refuse((values > most) | (values < -most), values, field, at, f"a whole number up to {most}")
    return values.cast(pl.Int64)


def times_us(values: pl.Series, field: str, at: Locator, unit_us: Fraction) -> pl.Series:
    """Int64 microseconds of the numbers that :func:`numbers` gave, rounded to the nearest.

    Raises
    ------
    TraceError
        A time is beyond 285 years either way.
    """
    longest = float(LONGEST_US / unit_us)
    refuse((values > longest) | (values < -longest), values, field, at, "a time within 285 years")
    if values.dtype == pl.Int64 and unit_us.denominator == 1:
        return values * unit_us.numerator
    return (values * float(unit_us)).round().cast(pl.Int64)


def amounts(values: pl.Series, field: str, at: Locator, unit: Fraction) -> pl.Series:
    """Int64 amounts of the numbers that :func:`numbers` gave times ``unit``, rounded up as a demand is.

    Raises
    ------
    TraceError
        An amount is 2**42 or more.
    """
    most = float(MOST_MB / unit)
    refuse((values >= most) | (values <= -most), values, field, at, f"an amount below {most:g}")
    if values.dtype == pl.Int64:
        # Results are below 2**42, so nothing here passes 2**62; other units go by float.
        if unit.denominator == 1:
            return values * unit.numerator
        if unit.numerator == 1:
            return -((-values) // unit.denominator)
    return (values * float(unit)).round(6).ceil().cast(pl.Int64)


def time_option_us(name: str, value: object, want: str, least_us: int = 0, most_us: int = LONGEST_US) -> int:
    """An option that is a time: s, or text with a unit.

    Raises
    ------
    InputError
        It is none, or out of range.
    """
    try:
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            found = time_us(value)
            if least_us <= found <= most_us:
                return found
    except ValueError:
        pass
    raise InputError(f"option {name}", repr(value), want)


def asked_as(name: str, value: object) -> str:
    """An option that says as what a resource is asked for, ``KIND.QUANTITY``, or that it is not."""
    if not isinstance(value, str) or (value != "ignore" and not DEVICE_KEY.fullmatch(value)):
        raise InputError(f"option {name}", repr(value), "KIND.QUANTITY such as gpus.count or gpu.devices, or ignore")
    return value


def boolean(name: str, value: object) -> bool:
    """An option that is true or false.

    Raises
    ------
    InputError
        It is neither.
    """
    if not isinstance(value, bool):
        raise InputError(f"option {name}", repr(value), "true or false")
    return value


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """An option that is one of a few words.

    Raises
    ------
    InputError
        It is none of them.
    """
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"option {name}", repr(value), f"one of {', '.join(allowed)}")
    return value


def count(name: str, value: object) -> int:
    """An option that is a whole number of 1 or more.

    Raises
    ------
    InputError
        It is not.
    """
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise InputError(f"option {name}", repr(value), f"a whole number from 1 to {MOST}")
    return value
