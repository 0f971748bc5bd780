"""Selectors of devices in CEL, each evaluated once for all devices that are described alike.

What may be written is what the API server takes, and less where it could cost much: an expression is measured before
it is compiled, so that what it costs is known whatever devices there are, and no clock decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

from unrack.kubernetes_text import quantity
from unrack.live.printable import printable

MOST_LENGTH = 10 * 1024
"""Characters of an expression; the API server takes no more either."""
MOST_TOKENS = 2000
"""Words and signs of an expression: as many steps, at most, as it takes where nothing is repeated."""
MOST_REPEATED = 128
"""Words and signs of an expression that goes over lists or binds names."""
MOST_KEPT = 200_000
"""Answers that are remembered."""
_TOKEN = re.compile(
    r"""[rRbB]*"(?:\\.|[^"\\\n])*"|[rRbB]*'(?:\\.|[^'\\\n])*'|//.*|[A-Za-z_]\w*|\d[\w.]*|[=!<>]=|&&|\|\||\S"""
)
_LOOPS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:[0-9A-Za-z-]+)(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


class SelectorError(ValueError):
    """A selector that is not understood, or cannot be evaluated for a device."""


class Selectors:
    """Expressions, and what they said of devices."""

    def __init__(self) -> None:
        self._programs: dict[str, tuple[Any, frozenset[str]] | SelectorError] = {}
        self._said: dict[tuple[str, int], bool | SelectorError] = {}

    def holds(self, expression: str, kind: int, described: Mapping[str, Any]) -> bool:
        """Whether a device is one that an expression selects.

        Parameters
        ----------
        expression
            In CEL, of a variable ``device``.
        kind
            A number of its own for each description.
        described
            As :func:`described` makes it.

        Raises
        ------
        SelectorError
            It is not understood, would cost too much, or cannot be evaluated for this device.
        """
        key = expression, kind
        if key not in self._said:
            if len(self._said) >= MOST_KEPT:
                self._said.clear()
                self._programs.clear()
            try:
                self._said[key] = self._evaluated(expression, described)
            except SelectorError as error:
                self._said[key] = error
        found = self._said[key]
        if isinstance(found, SelectorError):
            raise found
        return found

    def _evaluated(self, expression: str, described: Mapping[str, Any]) -> bool:
        if expression not in self._programs:
            try:
                self._programs[expression] = _compiled(expression)
            except SelectorError as error:
                self._programs[expression] = error
        found = self._programs[expression]
        if isinstance(found, SelectorError):
            raise found
        program, texts = found
        # a domain that a device says nothing of is empty, and not an error
        domains = {part: {text: {} for text in texts} | described[part] for part in ("attributes", "capacity")}
        context = _functions()
        context.add_variable("device", {**described, **domains})
        said = _run(lambda: program.execute(context), expression)
        if not isinstance(said, bool):
            raise SelectorError(f"the selector {_short(expression)} is {type(said).__name__}, not true or false")
        return said


def described(
    driver: str, multiple: bool, attributes: Mapping[str, Any], capacity: Mapping[str, Fraction]
) -> dict[str, Any]:
    """A device as an expression sees it; names without a domain are in that of the driver.

    Attributes are numbers, texts, true or false, or a version as :func:`version` makes it.
    """
    found: dict[str, Any] = {
        "driver": driver, "allowMultipleAllocations": multiple, "attributes": {}, "capacity": {},
    }  # fmt: skip
    for part, values in (("attributes", attributes), ("capacity", capacity)):
        for name, value in values.items():
            domain, _, short = name.rpartition("/")
            said = _quantity(value) if part == "capacity" else value
            found[part].setdefault(domain or driver, {})[short] = said
    return found


def version(text: str) -> dict[str, str]:
    """A semantic version.

    Raises
    ------
    SelectorError
        It is none.
    """
    if not _SEMVER.fullmatch(text):
        raise SelectorError(f"{printable(text, 40)!r} is not a semantic version")
    return {"semver": text.partition("+")[0]}


def _compiled(expression: str) -> tuple[Any, frozenset[str]]:
    """A program, and the texts in it."""
    if len(expression) > MOST_LENGTH:
        raise SelectorError(f"a selector of {len(expression)} characters, of {MOST_LENGTH} at most")
    tokens = _TOKEN.findall(expression)
    _check(tokens, expression)
    import cel

    text = _without_bindings(tokens)
    texts = frozenset(token[1:-1] for token in tokens if token[0] in "\"'" and len(token) > 1)
    return _run(lambda: cel.compile(text), expression), texts


def _check(tokens: list[str], expression: str) -> None:
    """Refuse what could cost much: many steps, loops in loops, large regular expressions."""
    if '"""' in expression or "'''" in expression or any(one.startswith("//") for one in tokens):
        raise SelectorError(f"the selector {_short(expression)} has texts in three quotes or comments: not kept")
    loops = sum(one in _LOOPS and after == "(" for one, after in pairwise(tokens))
    binds = tokens.count("bind")
    most = MOST_REPEATED if loops or binds else MOST_TOKENS
    if len(tokens) > most or loops > 1 or binds > 3:
        raise SelectorError(
            f"the selector {_short(expression)} may cost too much: {len(tokens)} words and signs of {most}, "
            f"{loops} loops of 1, {binds} bindings of 3 at most"
        )
    if "matches" in tokens and (expression.count("{") > 2 or re.search(r"\{[^}]*\d{3}", expression)):
        raise SelectorError(f"the selector {_short(expression)} matches a text that is repeated too often")


def _without_bindings(tokens: list[str]) -> str:
    """``cel.bind(name, value, body)`` in words that every CEL knows: ``[value].map(name, body)[0]``."""
    words = list(tokens)
    while (at := next((i for i in range(len(words) - 3) if words[i : i + 4] == ["cel", ".", "bind", "("]), -1)) >= 0:
        parts, depth, end = [list[str]()], 1, at + 4
        while depth and end < len(words):
            word = words[end]
            depth += (word in "([{") - (word in ")]}")
            if word == "," and depth == 1:
                parts.append([])
            elif depth:
                parts[-1].append(word)
            end += 1
        if depth or len(parts) != 3 or len(parts[0]) != 1:
            raise SelectorError("a cel.bind that is not (name, value, expression)")
        name, value, body = parts
        words[at:end] = ["[", "(", *value, ")", "]", ".", "map", "(", *name, ",", *body, ")", "[", "0", "]"]
    return " ".join(words)


def _run(work: Callable[[], Any], expression: str) -> Any:
    try:
        return work()
    except SelectorError:
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a fault within the library is no Exception
        raise SelectorError(f"the selector {_short(expression)}: {printable(str(error), 160)}") from None


def _short(expression: str) -> str:
    return repr(printable(expression, 120))


# --- what Kubernetes adds to CEL ----------------------------------------------------------------------------------


def _functions() -> Any:
    import cel

    context = cel.Context()
    for name, work in _EXTENSIONS().items():
        context.add_function(name, work)
    return context


@cache
def _EXTENSIONS() -> Mapping[str, Callable[..., Any]]:  # noqa: N802 - a table, made when it is first needed
    def compared(one: Any, other: Any) -> int:
        mine, others = _order(one), _order(other)
        return int(mine > others) - int(mine < others)

    return {
        "quantity": lambda text: _quantity(quantity(text)),
        "isQuantity": lambda text: _succeeds(quantity, text),
        "semver": version,
        "isSemver": lambda text: _succeeds(version, text),
        "compareTo": compared,
        "isGreaterThan": lambda one, other: compared(one, other) > 0,
        "isLessThan": lambda one, other: compared(one, other) < 0,
        "major": lambda one: int(_SEMVER.fullmatch(one["semver"])[1]),  # type: ignore[index]
        "minor": lambda one: int(_SEMVER.fullmatch(one["semver"])[2]),  # type: ignore[index]
        "patch": lambda one: int(_SEMVER.fullmatch(one["semver"])[3]),  # type: ignore[index]
        "sign": lambda one: (_order(one) > 0) - (_order(one) < 0),
        "isInteger": lambda one: _order(one).denominator == 1,
        "asInteger": lambda one: int(_order(one)),
        "asApproximateFloat": lambda one: float(_order(one)),
        "add": lambda one, other: _quantity(_order(one) + _order(other)),
        "sub": lambda one, other: _quantity(_order(one) - _order(other)),
        "lowerAscii": str.lower,
        "upperAscii": str.upper,
    }


def _succeeds(work: Callable[[str], Any], text: str) -> bool:
    try:
        work(text)
    except ValueError:
        return False
    return True


def _quantity(amount: Any) -> dict[str, str]:
    return {"quantity": str(Fraction(amount))}


def _order(value: Any) -> Any:
    """What stands for a quantity or a version where it is compared."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, Mapping) and "quantity" in value:
        return Fraction(value["quantity"])
    found = _SEMVER.fullmatch(value["semver"]) if isinstance(value, Mapping) and "semver" in value else None
    if found is None:
        raise SelectorError(f"{value!r} is neither a quantity nor a version")
    early = tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in (found[4] or "").split(".") if one)
    return (*map(int, found.group(1, 2, 3)), not early, early)
