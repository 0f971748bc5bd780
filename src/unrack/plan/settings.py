"""What is to be found: the ``[plan]`` table of a study, and what the command line says instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BeforeValidator, Field, FiniteFloat

from unrack.cluster.prices.prices import make_prices
from unrack.errors import InputError, nearest
from unrack.metric.table import entry_of
from unrack.plan.goal import COST, Goal, known_metric, number_of, read_goal, with_served
from unrack.plan.search import GoalRule, Way
from unrack.resources.checked import Strict
from unrack.study.input.inputs import Document

MOST_VALUES = 10_000
_RANGE = re.compile(
    r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*\.\.\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*(?:([/*])\s*(\d+(?:\.\d+)?))?\s*"
)
_NUMBER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")


class Vary(NamedTuple):
    """A key and its values."""

    key: str  # dotted, as in ``[sweep]``: ``clusters.0.pools.0.count``
    values: tuple[Any, ...]  # in the order given, each once


def read_vary(text: str, where: str = "--vary") -> Vary:
    """A key and values, ``KEY=VALUES``, as people write them on the command line; an InputError if it is none.

    Examples
    --------
    >>> read_vary("clusters.0.pools.0.count=1..4")
    Vary(key='clusters.0.pools.0.count', values=(1, 2, 3, 4))
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise InputError(where, repr(text), "KEY=VALUES, such as clusters.0.pools.0.count=1..20")
    return Vary(key.strip(), values_of(values.strip(), where))


def values_of(given: str | Sequence[Any], where: str) -> tuple[Any, ...]:
    """Values from a list, or from text; an InputError if there is none, one is there twice, or there are too many.

    Text: ``1..20``, with steps ``0..100/25``, growing ``16..512*2``, with a unit ``64..256 GB/64`` or ``0..100 %/10``;
    or values with commas between them: ``32 GB, 64 GB``.

    Examples
    --------
    >>> values_of("16..128*2", "x"), values_of("64..192 GB/64", "x"), values_of("0..100 %/50", "x")
    ((16, 32, 64, 128), ('64 GB', '128 GB', '192 GB'), (0.0, 0.5, 1.0))
    >>> values_of("rack, all", "x"), values_of("0.5,1", "x")
    (('rack', 'all'), (0.5, 1))
    """
    if isinstance(given, str):
        ranged = _RANGE.fullmatch(given)
        found = _range(ranged, given, where) if ranged else [_value(part.strip()) for part in given.split(",")]
        if "" in found:
            raise InputError(where, repr(given), "a value between any two commas")
    else:
        found = list(given)
    if not found:
        raise InputError(where, "no value", "at least one value")
    for i, value in enumerate(found):
        if value in found[:i]:
            raise InputError(where, f"{value!r} twice", "every value once")
    return tuple(found)


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return int(text)
    if text.endswith("%") and _FLOAT.fullmatch(text[:-1].strip()):
        return float(text[:-1]) / 100
    return float(text) if _FLOAT.fullmatch(text) else text.strip("\"'")


def _range(match: re.Match[str], text: str, where: str) -> list[Any]:
    first, unit, last, other, way, step = match.groups()
    if unit and other and unit != other:
        raise InputError(where, repr(text), "the same unit on both sides, such as 64 GB..256 GB/64")
    unit = other or unit
    low, high = float(first), float(last)
    by = 1.0 if step is None else float(step)
    if high < low:
        raise InputError(where, repr(text), "a range that goes up, such as 1..20")
    if (way == "*" and (by <= 1 or low <= 0)) or by <= 0:
        raise InputError(where, repr(text), "steps above 0 (1..20/2), or a factor above 1 from above 0 (16..512*2)")
    numbers, at = list[float](), low
    while at <= high * (1 + 1e-12) and len(numbers) <= MOST_VALUES:
        numbers.append(at)
        at = at * by if way == "*" else low + len(numbers) * by
    if len(numbers) > MOST_VALUES:
        raise InputError(where, repr(text), f"at most {MOST_VALUES} values: take larger steps, as in 1..1000000*2")
    if unit == "%":
        return [round(number / 100, 12) for number in numbers]
    plain = [int(number) if number == int(number) else round(number, 12) for number in numbers]
    return [f"{number} {unit}" for number in plain] if unit else list(plain)


def read_varies(table: Mapping[str, Any], where: str) -> tuple[Vary, ...]:
    """The ``vary`` table of a study: key → values, as a list or as text."""
    return tuple(
        Vary(key, values_of(values if isinstance(values, str | list) else [values], f"{where}.{key}"))
        for key, values in table.items()
    )


SHARE = 0.9
MOST_SEEDS = {"share": 20, "confidence": 80, "both": 640}
"""How many seeds are run at most, by default."""


def _share(value: object) -> object:
    if isinstance(value, str) and "%" in value:
        with suppress(ValueError):
            return number_of(value)
    if isinstance(value, bool | str):
        raise ValueError("a share, such as 0.9 or '90 %'")
    return value


Part = Annotated[FiniteFloat, BeforeValidator(_share), Field(gt=0, le=1)]
Sure = Annotated[FiniteFloat, BeforeValidator(_share), Field(ge=0.5, lt=1)]


class PlanTable(Strict):
    """The keys of ``[plan]``."""

    # such as ``"wait_s_p95 < 10 min"``; all must hold together, for every workload
    goals: list[str] = Field(default_factory=list)
    vary: dict[str, Any] = Field(default_factory=dict)  # key → values, as a list or as text such as ``"1..20"``
    objective: str = COST  # what is to be least: ``"cost"``, a varied key, or a metric
    # on which share of the seeds the goals must hold; default: 0.9, unless there is a confidence
    share: Part | None = None
    confidence: Sure | None = None  # how sure it must be of all seeds that could be drawn
    seeds: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None = None  # how many are run at most
    # the name of a preset, or a table; for clusters that have none of their own
    prices: str | dict[str, Any] | None = None
    # key → value of the system that goals "of reference" are relative to; ``policy``: its policy
    reference: dict[str, Any] | None = None
    search: Way = "auto"  # ``"auto"``, ``"every"`` or ``"bisect"``


@dataclass(frozen=True)
class PlanSettings:
    """What is to be found, as in :class:`PlanTable` and :class:`unrack.plan.search.GoalRule`."""

    goals: tuple[Goal, ...]
    varies: tuple[Vary, ...]
    objective: str = COST
    share: float | None = SHARE
    confidence: float | None = None
    seeds: int = 20
    prices: str | Mapping[str, Any] | None = None
    reference: Mapping[str, Any] | None = None
    search: Way = "auto"
    written: bool = True  # whether the goals are those of the study

    @property
    def sign(self) -> int:
        """-1 where more of the objective is better: what is to be least is sign × objective."""
        metric = entry_of(self.objective)
        return -1 if metric is not None and metric.better == "high" else 1

    def rule(self, systems: int, drawn: bool) -> GoalRule:
        """When goals count as met in a search of so many systems; where nothing is drawn, one seed tells all."""
        if not drawn:
            return GoalRule(self.goals, 1, 1.0, None, systems)
        return GoalRule(self.goals, self.seeds, self.share, self.confidence, systems)


def read_plan(document: Document) -> tuple[PlanTable, str, tuple[Goal, ...], tuple[Vary, ...]]:
    """The ``[plan]`` of a study, where it is, its goals and what it varies; an InputError if a key of it cannot be."""
    written = document.table.get("plan") or {}
    if not isinstance(written, Mapping):
        raise document.fault(("plan",), repr(written), "a table")
    table = document.validated(PlanTable, written, ("plan",))
    at = document.where(("plan",)) if written else document.path
    goals = tuple(read_goal(text, f"{at}.goals") for text in table.goals)
    return table, at, goals, read_varies(table.vary, f"{at}.vary")


def make_settings(
    document: Document, goals: Sequence[Goal] = (), varies: Sequence[Vary] = (), **said: Any
) -> PlanSettings:
    """What is to be found: the ``[plan]`` of a study, with what is said beside it in place of its own.

    ``said``: ``objective``, ``share``, ``confidence``, ``seeds``, ``prices``, ``reference``, ``search``; ``None``: not
    said.

    Raises
    ------
    InputError
        There is no goal or nothing to vary, something else is swept, a goal is relative to no reference, or a key of
        ``[plan]`` cannot be.
    """
    table, at, own, vary = read_plan(document)
    found = tuple(goals) or own
    if not found:
        raise InputError(at, "no goal", "--goal 'wait_s_p95 < 10 min', or goals in [plan]")
    swept = document.table.get("sweep", {})
    chosen = tuple(varies) or vary or read_varies(swept, f"{document.path}, sweep")
    if not chosen:
        raise InputError(at, "nothing to vary", "--vary clusters.0.nodes.0.count=1..20, or [plan.vary]")
    keys = [vary.key for vary in chosen]
    if kept := next((key for key in swept if key not in keys), None):
        raise document.fault(
            ("sweep", kept), "a sweep over what is not varied", f"{kept!r} among what is varied, or no sweep"
        )
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise InputError("--vary", f"{twice!r} twice", "every key once")
    told = {key: getattr(table, key) if said.get(key) is None else said[key] for key in (
        "objective", "share", "confidence", "seeds", "prices", "reference", "search")}  # fmt: skip
    if said.get("confidence") is not None and said.get("share") is None:
        told["share"] = None
    told |= _by_goals(found, said if goals else told)
    if told["share"] is None and told["confidence"] is None:
        told["share"] = SHARE
    if told["share"] == 1 and told["confidence"] is not None:
        raise InputError("share", "100 % of all seeds, with a confidence", "less: no number of seeds shows that of all")
    if told["search"] not in get_args(Way):
        raise InputError("search", repr(told["search"]), f"one of {', '.join(get_args(Way))}")
    way = "share" if told["confidence"] is None else "confidence" if told["share"] is None else "both"
    told["seeds"] = told["seeds"] or MOST_SEEDS[way]
    if told["objective"] not in (COST, *keys) and not known_metric(told["objective"]):
        want = f"{COST}, a varied key, or a metric: {nearest(told['objective'], [COST, *keys])}"
        raise InputError("objective", repr(told["objective"]), want)
    if told["reference"] is None and (relative := next((goal for goal in found if goal.relative), None)):
        want = "a reference: [plan.reference], or --reference KEY=VALUE, says which system that is"
        raise InputError("goal", repr(str(relative)), want)
    bare = tuple(goal._replace(share=None, confidence=None) for goal in found)
    return PlanSettings(with_served(bare), chosen, **told, written=not goals)


def _by_goals(goals: Sequence[Goal], said: Mapping[str, Any]) -> dict[str, float]:
    """The share and the confidence that goals ask for, which is one for all of them, as they hold together."""
    asked = list(dict.fromkeys((goal.share, goal.confidence) for goal in goals if goal.share or goal.confidence))
    if not asked:
        return {}
    if len(asked) > 1:
        got = " and ".join(str([one for one in pair if one is not None]) for pair in asked)
        raise InputError(
            "goals", f"several shares of seeds or confidences: {got}", "one for all, as they hold together"
        )
    found = {key: value for key, value in zip(("share", "confidence"), asked[0], strict=True) if value is not None}
    for key, value in found.items():
        if said.get(key) not in (None, value):
            raise InputError(f"goals and {key}", f"{value} and {said[key]}", f"one {key}, in a goal or beside them")
    return found


def read_prices(text: str) -> str | dict[str, Any]:
    """The name of a preset of prices, or the table of a TOML file; an InputError if they are no prices."""
    found: str | dict[str, Any] = text
    if text.endswith(".toml"):
        table = dict(Document.read(text, "prices").table)
        inner = table.get("prices")
        found = dict(inner) if isinstance(inner, Mapping) and len(table) == 1 else table
    make_prices(found, "--prices")
    return found


def read_reference(texts: Sequence[str]) -> dict[str, Any]:
    """Key → value of ``KEY=VALUE`` texts; an InputError if one has no key or not one value.

    Examples
    --------
    >>> read_reference(["policy=easy", "clusters.0.nodes.0.count=16"])
    {'policy': 'easy', 'clusters.0.nodes.0.count': 16}
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise InputError("--reference", repr(text), "KEY=VALUE, such as policy=baseline")
        found[key] = value if key == "policy" else values_of(value, "--reference")[0]
    return found
