"""The answer of a plan, as plain tables: what to take, what just fails, what was tried, and how sure that is.

A chart has the cost against a goal: every system that was tried, and the ones that no other beats in both. A system is
drawn at the value that decides: of the seed at which the share of seeds is reached or lost, or the mean with its
bounds. So a system that fails for this goal is on the wrong side of its line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unrack.metric.estimate import estimate
from unrack.plan.decided import certain_text, missed_text, of_goal, shown, values_text
from unrack.plan.execute import Plan, Searched
from unrack.plan.goal import COST, Trial, amount_text, is_share, is_time, mean_of, shared_means
from unrack.plan.search import SURE, Verdict
from unrack.report.charts.spec import Spec, colour_of, framed, number, word
from unrack.units import time_unit


def answer(plan: Plan, searched: Sequence[Searched]) -> dict[str, Any]:
    """Everything there is to say, as a table of plain values; the same runs give the same bytes.

    Returns
    -------
    dict
        ``question``, ``headline`` (the answer in a line), ``goals``, ``thresholds`` (shares of the reference where
        ``relative``), ``holds`` (in words), ``objective``, ``labels`` (keys in words),
        ``currency``, ``years``, ``prices`` (where they are from, and whether they are examples), ``lines`` (one a
        cluster and policy; see :func:`line_answer`) and ``least``: the number of the line that needs least, ``None``
        where no line has one; ``shown``: the goals, by place, of which tables and charts say something.
    """
    lines = [line_answer(plan, one) for one in searched]
    goals = [str(goal) for goal in plan.settings.goals]
    answers = {at: one.trials[best] for at, one in enumerate(searched) if (best := one.found.best) is not None}
    means = {} if plan.ordered else shared_means(answers, plan.settings.objective)
    ranked = [(_rank(plan, lines[at], means.get(at)), at) for at in answers]
    bill = searched[0].line.bills[0]
    rule = max((one.rule for one in searched), key=lambda rule: rule.seeds)
    least = min(ranked)[1] if ranked else None
    return {
        "question": plan.table.question if plan.settings.written else None,
        "headline": _headline(lines, least, goals),
        "goals": goals,
        "thresholds": [goal.value for goal in plan.settings.goals],
        "relative": [goal.relative for goal in plan.settings.goals],
        "shown": _shown(plan, searched),
        "served_by_default": any(goal.unasked for goal in plan.settings.goals),
        "holds": str(rule),
        "seeds": rule.seeds,
        "share": rule.share,
        "confidence": rule.confidence,
        "drawn": any(plan.drawn),
        "objective": plan.settings.objective,
        "labels": dict(plan.labels),
        "reference": None if plan.settings.reference is None else dict(plan.settings.reference),
        "currency": bill.prices.currency,
        "years": bill.prices.years,
        "prices": {"source": bill.prices.source, "preset": bill.prices.preset, "examples": bill.prices.example},
        "lines": lines,
        "least": least,
    }


def _shown(plan: Plan, searched: Sequence[Searched]) -> list[int]:
    """The goals, by place, without one that was not written and that all systems met."""
    goals = plan.settings.goals
    every = [trial for one in searched for trials in one.trials.values() for trial in trials]
    return [at for at, goal in enumerate(goals) if not goal.unasked or not all(trial.met(goal) for trial in every)]


def _rank(plan: Plan, line: Mapping[str, Any], mean: float | None) -> tuple[float, float]:
    """How much of the objective the answer of a line needs, infinitely much where it has none of it; and its cost.

    ``mean``: of an objective that is a metric.
    """
    own, what, cost = line["answer"], plan.settings.objective, float(line["answer"]["cost"]["total"])
    if what == COST:
        return cost, cost
    if key := next((vary for vary in plan.settings.varies if vary.key == what), None):
        return (float(key.values.index(own["values"][what])) if what in own["values"] else math.inf), cost
    return (math.inf if mean is None else plan.settings.sign * mean), cost


def line_answer(plan: Plan, searched: Searched) -> dict[str, Any]:
    """The answer for one cluster and policy.

    Returns
    -------
    dict
        ``cluster``, ``policy``; ``answer``, ``below`` (the dearest cheaper system that was tried and fails; ``None``)
        and ``tried`` (all that was tried, the cheapest first), each a system as :func:`system_answer` has it;
        ``systems`` (how many there are), ``runs``, ``believed``, ``worse_above`` and ``undecided`` (systems by place in
        ``tried``), and in words ``brief``, ``why_below`` and ``sentence``.
    """
    found, line = searched.found, searched.line
    tried = sorted(system for system, trials in searched.trials.items() if trials)
    systems = [system_answer(plan, searched, system) for system in tried]
    place = {system: at for at, system in enumerate(tried)}
    failing = [system for system in tried if found.verdicts.get(system) == Verdict.FAILS]
    below = [system for system in failing if found.best is None or system < found.best]
    told = {
        "cluster": line.cluster_name,
        "policy": line.policy_label,
        "answer": None if found.best is None else systems[place[found.best]],
        "below": systems[place[below[-1]]] if below else None,
        "tried": systems,
        "systems": len(line.space),
        "runs": sum(len(trials) * len(trials[0].values) for trials in searched.trials.values() if trials),
        "believed": found.believed,
        "worse_above": [place[system] for system in found.worse_above()],
        "undecided": [place[system] for system in found.undecided_below()],
    }
    return {**told, **_told(plan, searched, told)}


def system_answer(plan: Plan, searched: Searched, system: int) -> dict[str, Any]:
    """A system that was tried.

    Returns
    -------
    dict
        ``values`` (key → value), ``cost`` (see :meth:`unrack.cluster.prices.bill.Bill.record`), ``verdict``, ``seeds``
        (run), ``met`` (of them), ``at_least`` and ``at_most`` (bounds of the share of all seeds that could be drawn
        which meets the goals: :meth:`unrack.plan.search.GoalRule.of_all_seeds`), ``goals`` (for each what
        :func:`unrack.plan.decided.of_goal` says) and ``metrics``.
    """
    line, trials, rule = searched.line, searched.trials[system], searched.rule
    low, high = rule.of_all_seeds(trials) or (None, None)
    return {
        "values": line.values(system),
        "cost": line.bills[system].record(),
        "verdict": str(searched.found.verdicts.get(system, Verdict.OPEN)),
        "seeds": len(trials),
        "met": sum(rule.met(trials)),
        "at_least": low,
        "at_most": high,
        "goals": [{"goal": str(goal), **of_goal(rule, goal, trials)} for goal in rule.goals],
        "metrics": {metric: _spread(trials, metric) for metric in _metrics(plan)},
    }


def _metrics(plan: Plan) -> list[str]:
    own = [goal.metric for goal in plan.settings.goals]
    objective = [] if plan.ordered else [plan.settings.objective]
    return list(dict.fromkeys([*own, *objective, "served", "wait_s_mean", "wait_s_p95", "utilisation_cores"]))


def _spread(trials: Sequence[Trial], metric: str) -> dict[str, float | None]:
    found = estimate((mean_of(trial, metric) for trial in trials), SURE)
    return {"mean": None, "half": None} if found is None else {"mean": found.mean, "half": found.half}


def _told(plan: Plan, searched: Searched, line: Mapping[str, Any]) -> dict[str, str]:
    """The answer of a line in words: in brief, why the next cheaper one fails, and all of it."""
    rule, goals, found = searched.rule, searched.rule.goals, searched.found

    def said(system: Mapping[str, Any]) -> str:
        return values_text(system["values"], plan.labels)

    def missed(system: Mapping[str, Any]) -> str:
        return missed_text(rule, goals, system)

    name = f"{line['policy']} on {line['cluster']}"
    own, below = line["answer"], line["below"]
    open_ones = [line["tried"][at] for at in line["undecided"]]
    undecided = [f"{said(one)} cannot be decided with {one['seeds']} seeds ({missed(one)})" for one in open_ones]
    if own is None:
        brief = (
            f"{name}: {'undecided' if undecided else 'out of reach'}: none of the {len(line['tried'])} systems tried "
        )
        brief += "is known to meet the goals" if undecided else "meets the goals"
        largest = line["tried"][-1]
        why = "" if largest in open_ones else f"{said(largest)}, the dearest, fails: {missed(largest)}"
        brief += f"; {line['believed']:,} others were not tried" if line["believed"] else ""
        words = [brief, *undecided, why]
        return {"brief": brief, "why_below": why, "sentence": "; ".join([*filter(None, words), *_unserved(plan, line)])}
    cost = f"{own['cost']['total']:,.0f} {own['cost']['currency']}"
    brief = f"{name}: {said(own)} for {cost}{_objective_text(plan, own)}, {certain_text(rule, own, searched.drawn)}"
    if found.best == 0 and line["systems"] > 1 and plan.ordered:
        brief += " (the least of the values given: smaller ones may do)"
    if undecided:
        brief += f" ({len(undecided)} cheaper system{'s' * (len(undecided) > 1)} cannot be decided)"
    why = "" if below is None else f"{said(below)} fails: {missed(below)}"
    words = [brief, why, *undecided]
    if line["worse_above"]:
        some = [said(line["tried"][at]) for at in line["worse_above"]]
        words.append(f"more is not always better: {', '.join(some)} fails again")
    return {"brief": brief, "why_below": why, "sentence": "; ".join(filter(None, words))}


def _objective_text(plan: Plan, system: Mapping[str, Any]) -> str:
    """The mean of the metric that is to be least, of which tables of goals may say nothing."""
    if plan.ordered:
        return ""
    metric = plan.settings.objective
    return f" with {metric} of {amount_text(metric, system['metrics'][metric]['mean'])}"


def _headline(lines: Sequence[Mapping[str, Any]], least: int | None, goals: Sequence[str]) -> str:
    if least is not None:
        return str(lines[least]["brief"])
    if len(lines) == 1:
        why = lines[0]["why_below"]
        return f"{lines[0]['brief']}{f'; {why}' if why else ''}"
    undecided = any(line["undecided"] for line in lines)
    tried, left = sum(len(line["tried"]) for line in lines), sum(line["believed"] for line in lines)
    what, known = ("undecided", "is known to meet") if undecided else ("out of reach", "meets")
    beside = f" ({left:,} others were not tried)" if left else ""
    return f"{what}: none of the {tried} systems tried{beside} {known} {' and '.join(goals)}"


def _unserved(plan: Plan, line: Mapping[str, Any]) -> list[str]:
    """What helps where every system leaves work undone, and no goal says how much of it may be."""
    at = next((number for number, goal in enumerate(plan.settings.goals) if goal.unasked), None)
    shares = [] if at is None else [system["goals"][at]["low"] or 0.0 for system in line["tried"]]
    if not shares or max(shares) >= 1:
        return []
    most = math.floor(1e4 * max(shares)) / 1e4
    return [
        f"all of them leave work undone ({100 * most:g} % is served at most), which counts as a goal that is missed: "
        f"take larger systems, or say how much is enough, such as --goal 'served >= {100 * most:g} %'"
    ]


ORDERS = 30.0
"""Values that differ by more than this factor are on a logarithmic axis."""
CUT = 1000.0
"""Values below the goal by more than this factor are at the end of such an axis."""


def front(points: Iterable[tuple[float, float]], low_is_good: bool) -> list[int]:
    """The places of the points (cost, value) that no other beats, the cheapest first.

    Examples
    --------
    >>> front([(1, 9), (2, 4), (3, 6), (4, 2)], low_is_good=True)
    [0, 1, 3]
    """
    sign = 1 if low_is_good else -1
    best, kept = math.inf, list[int]()
    for _, value, at in sorted((cost, sign * value, at) for at, (cost, value) in enumerate(points)):
        if value < best:
            best = value
            kept.append(at)
    return kept


def scale_of(values: Sequence[float], least: float = 0.0) -> Spec:
    """The scale of an axis; of one by factors what is below its ``domainMin``, at or above ``least``, is put there.

    Examples
    --------
    >>> scale_of([0.0, 9.3])["type"], scale_of([0.0, 2.0, 900.0])
    ('linear', {'type': 'log', 'clamp': True, 'nice': False, 'domainMin': 1.0, 'domainMax': 1000.0})
    """
    low, high = min(values), max(values)
    above = min((max(value, least) for value in values if value > 0), default=0.0)
    if low < 0 or above == 0 or high / above <= ORDERS:
        return {"type": "linear", "zero": 0 <= low < 0.6 * high, "nice": True}
    ends = 10.0 ** math.floor(math.log10(above) + 1e-9), 10.0 ** math.ceil(math.log10(high) - 1e-9)
    return {"type": "log", "clamp": True, "nice": False, "domainMin": ends[0], "domainMax": ends[1]}


def points_of(found: Mapping[str, Any], goal: int) -> list[dict[str, Any]]:
    """All systems of an answer that have a value for a goal; the answer and the one below it have a label."""
    points, low_is_good = [], found["goals"][goal].split(" ")[1].startswith("<")
    for at, line in enumerate(found["lines"]):
        chosen, below = (None if line[key] is None else line[key]["values"] for key in ("answer", "below"))
        values = [system["goals"][goal]["value"] for system in line["tried"]]
        tried = [system for system, value in zip(line["tried"], values, strict=True)
                 if value is not None and math.isfinite(value)]  # fmt: skip
        best = front(((one["cost"]["total"], one["goals"][goal]["value"]) for one in tried), low_is_good)
        for place, system in enumerate(tried):
            own, chose = system["goals"][goal], system["values"]
            words = (
                f"{line['policy']} on {line['cluster']}, {values_text(chose, found['labels'])}: "
                f"{own['text']}, {system['cost']['total']:,.0f} {found['currency']}, "
                f"goals met on {system['met']} of {system['seeds']} seeds"
            )
            ends = [own["value"] if own[end] is None or not math.isfinite(own[end]) else own[end]
                    for end in ("low", "high")]  # fmt: skip
            points.append({
                "line": str(at), "cost": system["cost"]["total"], "value": own["value"], "low": ends[0],
                "high": ends[1], "verdict": system["verdict"], "chosen": chose == chosen, "best": place in best,
                "words": words, "label": ", ".join(map(shown, chose.values())) if chose in (chosen, below) else "",
            })  # fmt: skip
    return points


def chart(found: Mapping[str, Any], goal: int) -> Spec:
    """The picture of a goal, by its place in ``goals``."""
    points, words = points_of(found, goal), found["goals"][goal]
    metric, wanted = words.split(" ")[0], float(found["thresholds"][goal])
    ends = [value for point in points for value in (point["low"], point["value"], point["high"])]
    unit, size = ("% of the reference", 0.01) if found["relative"][goal] else _unit(metric, [*ends, wanted])
    points = [{**point, **{key: point[key] / size for key in ("low", "value", "high")}} for point in points]
    wanted, ends = wanted / size, [value / size for value in ends]
    y_scale = scale_of([*ends, wanted], (wanted if wanted > 0 else max(ends)) / CUT)
    x_scale, cut = scale_of([point["cost"] for point in points]), y_scale.get("domainMin", -math.inf)
    points = [{**point, **{key: max(point[key], cut) for key in ("low", "value", "high")}} for point in points]
    lines = [str(at) for at in range(len(found["lines"]))]
    scale = {"domain": lines, "range": [colour_of(at) for at in range(len(lines))]}
    x = number("cost", f"cost, {found['currency']}", scale=x_scale, axis=_axis(x_scale))
    y = number("value", f"{metric}, {unit}" if unit else metric, scale=y_scale, axis=_axis(y_scale, min(ends) < cut))
    colour = word("line", scale=scale, legend=None)
    at: Spec = {"x": x, "y": y}
    dashed = {"condition": {"test": "indexof(['open', 'undecided'], datum.verdict) >= 0", "value": [2, 1.5]},
              "value": [1, 0]}  # fmt: skip
    filled = {"condition": {"test": "datum.verdict !== 'meets'", "value": "transparent"}, **colour}
    rule: Spec = {"y": {**y, "field": "goal"}, "color": {"value": "#D7263D"}}
    layers: list[Spec] = [
        {"data": {"values": [{"goal": wanted, "words": words.partition(" ")[2]}]}, "layer": [
            {"mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.4}, "encoding": rule},
            {"mark": {"type": "text", "align": "right", "dy": -7},
             "encoding": {**rule, "x": {"value": "width"}, "text": {"field": "words"}}},
        ]},
        {"transform": [{"filter": "datum.best"}], "mark": {"type": "line", "strokeWidth": 1.2, "opacity": 0.7},
         "encoding": {**at, "color": colour}},
        {"transform": [{"filter": "datum.low < datum.high"}], "mark": {"type": "rule", "opacity": 0.5},
         "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}},
        {"transform": [{"filter": "datum.chosen"}], "mark": {"type": "point", "size": 280, "strokeWidth": 1.5},
         "encoding": {**at, "stroke": colour}},
        {"mark": {"type": "point", "size": 65, "strokeWidth": 1.6, "opacity": 1},
         "encoding": {**at, "stroke": colour, "fill": filled, "strokeDash": dashed, "tooltip": word("words")}},
        {"transform": [{"filter": "datum.label"}], "mark": {"type": "text", "align": "left", "dx": 14},
         "encoding": {**at, "text": {"field": "label"}}},
    ]  # fmt: skip
    return {**framed({"layer": layers}, 300), "data": {"values": points}}


def _axis(scale: Spec, cut: bool = False) -> Spec:
    """Few words along an axis; ``cut``: there are values below its low end."""
    words = "format(datum.value, abs(datum.value) < 1 ? '~g' : '~s')"
    axis: Spec = {"tickCount": 5, "labelOverlap": True, "labelExpr": words}
    if scale["type"] == "linear":
        return axis
    powers = (round(math.log10(scale[end])) for end in ("domainMin", "domainMax"))
    less = f"(datum.value <= {scale['domainMin']} ? '≤ ' : '') + {words}" if cut else words
    return {**axis, "labelExpr": less, "values": [10.0**power for power in range(next(powers), next(powers) + 1)]}


def _unit(metric: str, values: Sequence[float]) -> tuple[str, float]:
    """The unit of an axis, and how much of the metric's own it is."""
    if is_time(metric):
        return time_unit(values)
    return ("%", 0.01) if is_share(metric) else ("", 1.0)
