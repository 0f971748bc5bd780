"""The answer of a plan, as plain tables: what to take, what just fails, what was tried, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unrack.metric.estimate import estimate
from unrack.plan.decided import certain_text, missed_text, of_goal, values_text
from unrack.plan.execute import Searched
from unrack.plan.goal import COST, Trial, mean_of
from unrack.plan.lines import Plan
from unrack.plan.search import SURE, Verdict


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
    ranked = [(_rank(plan, line), at) for at, line in enumerate(lines) if line["answer"] is not None]
    bill = searched[0].line.bills[0]
    rule = max((one.rule for one in searched), key=lambda rule: rule.seeds)
    least = min(ranked)[1] if ranked else None
    return {
        "question": plan.table.question,
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


def _rank(plan: Plan, line: Mapping[str, Any]) -> float:
    own = line["answer"]
    value = own["metrics"].get(plan.settings.objective, {}).get("mean")
    return float(own["cost"]["total"]) if value is None else plan.settings.sign * float(value)


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
    objective = [] if plan.settings.objective == COST else [plan.settings.objective]
    return list(dict.fromkeys([*own, *objective, "served", "wait_s_mean", "wait_s_p95", "utilisation_cores"]))


def _spread(trials: Sequence[Trial], metric: str) -> dict[str, float | None]:
    found = estimate((mean_of([trial], metric) for trial in trials), SURE)
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
        words = [brief, *undecided, why, f"{line['believed']} were not tried" if line["believed"] else ""]
        return {"brief": brief, "why_below": why, "sentence": "; ".join([*filter(None, words), *_unserved(plan, line)])}
    cost = f"{own['cost']['total']:,.0f} {own['cost']['currency']}"
    brief = f"{name}: {said(own)} for {cost}, {certain_text(rule, own, searched.drawn)}"
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


def _headline(lines: Sequence[Mapping[str, Any]], least: int | None, goals: Sequence[str]) -> str:
    if least is not None:
        return str(lines[least]["brief"])
    if len(lines) == 1:
        why = lines[0]["why_below"]
        return f"{lines[0]['brief']}{f'; {why}' if why else ''}"
    undecided = any(line["undecided"] for line in lines)
    tried = sum(len(line["tried"]) for line in lines)
    what, known = ("undecided", "is known to meet") if undecided else ("out of reach", "meets")
    return f"{what}: none of the {tried} systems tried {known} {' and '.join(goals)}"


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
