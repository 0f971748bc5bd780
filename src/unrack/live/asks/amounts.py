"""Values of asks: sizes, bandwidths, counts, times and names, each one word without blanks.

They are what :mod:`unrack.units` reads, in fewer forms, so that the script that checks them at submission
(``scripts/job_submit.lua``) can read exactly the same: digits with at most three decimals, and a unit.
"""

from __future__ import annotations

import re

from unrack.units import SECOND_US, quantity, time_us

MOST_US = 3650 * 86_400 * SECOND_US
"""The latest deadline accepted, after ten years."""
MOST_PRIORITY = 999_999_999
"""The highest priority accepted, and minus the lowest."""

SIZE = "a size such as 100GB"
BANDWIDTH = "a bandwidth such as 1800MB/s"
COUNT = "a whole number"
TIME = "a time such as 2h or 1h30min, above 0, up to 3650d"
PRIORITY = f"a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}"
NAME = "a name of up to 64 letters, digits and any of _ . + -"

_NUMBER = r"[0-9]{1,13}(?:\.[0-9]{1,3})?"
_FORMS = {
    SIZE: re.compile(rf"{_NUMBER}(?:[KMGTkmgt](?:[Ii]?[Bb])?|[Bb])?"),
    BANDWIDTH: re.compile(rf"{_NUMBER}(?:[KMGT]i?[Bb]?|B)?(?:/s|ps)?"),
    COUNT: re.compile(r"[0-9]{1,13}"),
}
_TIME = re.compile(rf"{_NUMBER}|(?:{_NUMBER}(?:us|ms|s|sec|min|m|h|d|w)){{1,8}}")
_PRIORITY = re.compile(r"[+-]?[0-9]{1,9}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


def form_of(name: str) -> str:
    """What an amount of a quantity looks like, by the end of its name, in words.

    Examples
    --------
    >>> form_of("bandwidth_mb_s"), form_of("mb"), form_of("devices")
    ('a bandwidth such as 1800MB/s', 'a size such as 100GB', 'a whole number')
    """
    if f"_{name}".endswith("_mb_s"):
        return BANDWIDTH
    return SIZE if f"_{name}".endswith("_mb") else COUNT


def amount(form: str, text: str) -> int:
    """An amount in the unit that is kept, rounded up.

    Parameters
    ----------
    form
        ``SIZE``, ``BANDWIDTH`` or ``COUNT``.

    Raises
    ------
    ValueError
        It is none; the message is what was wanted.

    Examples
    --------
    >>> amount(SIZE, "100GB"), amount(BANDWIDTH, "1.8GB/s"), amount(COUNT, "3")
    (102400, 1800, 3)
    """
    if _FORMS[form].fullmatch(text) is None:
        raise ValueError(form)
    try:
        if form == COUNT:
            return quantity("", int(text))
        return quantity("_mb" if form == SIZE else "_mb_s", text)
    except ValueError:
        raise ValueError(f"{form}, below 2**42") from None


def after_us(text: str) -> int:
    """A time above 0, in µs.

    Raises
    ------
    ValueError
        It is none.
    """
    if _TIME.fullmatch(text) is None:
        raise ValueError(TIME)
    try:
        found = time_us(text)
    except ValueError:
        raise ValueError(TIME) from None
    if not 1 <= found <= MOST_US:
        raise ValueError(TIME)
    return found


def priority(text: str, most: int) -> int:
    """A priority, larger goes first, up to ``most``.

    Raises
    ------
    ValueError
        It is none, or above.
    """
    if _PRIORITY.fullmatch(text) is None:
        raise ValueError(PRIORITY)
    if int(text) > most:
        raise ValueError(f"{most} or less: only an administrator may ask for more")
    return int(text)


def name(text: str) -> str:
    """The name of an application.

    Raises
    ------
    ValueError
        It is none.
    """
    if _NAME.fullmatch(text) is None:
        raise ValueError(NAME)
    return text
