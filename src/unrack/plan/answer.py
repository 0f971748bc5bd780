"""The answer of a plan, as plain tables: what to take, what just fails, what was tried, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unrack.metric.estimate import estimate
from unrack.plan.goal import COST, Goal
from unrack.plan.lines import Plan
from unrack.plan.rule import Verdict
from unrack.plan.searched import Searched
from unrack.plan.trial import Trial, mean_of
from unrack.plan.words import values_text

SURE = 0.95
"""Of the bounds that are told beside shares of seeds, and of the intervals of means."""


def answer(plan: Plan, searched: Sequence[Searched]) -> dict[str, Any]:
    """Everything there is to say, as a table of plain values; the same runs give the same bytes.

    Returns
    -------
    dict
        ``question``, ``goals``, ``thresholds`` (shares of the reference where
        ``relative``), ``holds`` (in words), ``objective``, ``labels`` (keys in words),
        ``currency``, ``years``, ``prices`` (where they are from, and whether they are examples), ``lines`` (one a
        cluster and policy; see :func:`line_answer`) and ``least``: the number of the line that needs least, ``None``
        where no line has one; ``shown``: the goals, by place, of which tables and charts say something.
    """
    lines = [line_answer(plan, one) for one in searched]
    ranked = [(_rank(plan, line), at) for at, line in enumerate(lines) if line["answer"] is not None]
    bill = searched[0].line.bills[0]
    rule = max((one.rule for one in searched), key=lambda rule: rule.seeds)
    return {
        "question": plan.table.question,
        "goals": [str(goal) for goal in plan.settings.goals],
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
        "least": min(ranked)[1] if ranked else None,
    }


def _shown(plan: Plan, searched: Sequence[Searched]) -> list[int]:
    """The goals, by place, without one that nobody wrote and that all systems met."""
    goals = plan.settings.goals
    every = [trial for one in searched for trials in one.trials.values() for trial in trials]
    return [at for at, goal in enumerate(goals) if not goal.unasked or not all(trial.met(goal) for trial in every)]


def _rank(plan: Plan, line: Mapping[str, Any]) -> float:
    """What lines are compared by: their cost, or the metric that is the objective."""
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
        ``tried``), and ``sentence``.
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
    return {**told, "sentence": _sentence(plan, told)}


def system_answer(plan: Plan, searched: Searched, system: int) -> dict[str, Any]:
    """A system that was tried.

    Returns
    -------
    dict
        ``values`` (key → value), ``cost`` (see :meth:`unrack.cluster.prices.bill.Bill.record`), ``verdict``, ``seeds``
        (run), ``met`` (of them), ``at_least`` (the share of all seeds that could be drawn which meets the goals, at
        least, with 95 % confidence), ``goals`` (for each: ``text`` and ``mean``, ``half`` the width of its 95 %
        interval, ``worst`` seed, ``margin`` of the mean, ``met``) and ``metrics``.
    """
    line, trials = searched.line, searched.trials[system]
    met = sum(all(trial.met(goal) for goal in searched.rule.goals) for trial in trials)
    return {
        "values": line.values(system),
        "cost": line.bills[system].record(),
        "verdict": str(searched.found.verdicts.get(system, Verdict.OPEN)),
        "seeds": len(trials),
        "met": met,
        "at_least": at_least(met, len(trials)) if searched.rule.seeds > 1 else None,
        "goals": [{"goal": str(goal), **_of_goal(goal, trials)} for goal in searched.rule.goals],
        "metrics": {metric: _spread(trials, metric) for metric in _metrics(plan)},
    }


def _metrics(plan: Plan) -> list[str]:
    own = [goal.metric for goal in plan.settings.goals]
    objective = [] if plan.settings.objective == COST else [plan.settings.objective]
    return list(dict.fromkeys([*own, *objective, "served", "wait_s_mean", "wait_s_p95", "utilisation_cores"]))


def _spread(trials: Sequence[Trial], metric: str) -> dict[str, float | None]:
    found = estimate((mean_of([trial], metric) for trial in trials), SURE)
    return {"mean": None, "half": None} if found is None else {"mean": found.mean, "half": found.half}


def _of_goal(goal: Goal, trials: Sequence[Trial]) -> dict[str, Any]:
    """How far a goal is reached, in the workload that is worst; shares of the reference where it is relative to one."""
    margins = [[goal.margin(*trial.of(goal, at)) for trial in trials] for at in range(len(trials[0].values))]
    means = [_mean(own) for own in margins]
    worst = min(range(len(means)), key=lambda at: -math.inf if means[at] is None else means[at] or 0.0)
    values = [goal.measured(*trial.of(goal, worst)) for trial in trials]
    known = estimate(values, SURE)
    at = min(range(len(trials)), key=lambda one: trials[one].gap(goal, worst))
    return {
        "text": "–" if known is None else goal.text(known.mean),
        "mean": None if known is None else known.mean,
        "half": None if known is None else known.half,
        "worst": values[at],
        "margin": means[worst],
        "met": sum(trial.met(goal) for trial in trials),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def at_least(met: int, seeds: int) -> float:
    """The share of all seeds that could be drawn which meet the goals, at least, with 95 % confidence.

    One-sided (Clopper and Pearson, 1934).

    Examples
    --------
    >>> round(at_least(20, 20), 3), at_least(0, 5)
    (0.861, 0.0)
    """
    from scipy.special import betaincinv

    return 0.0 if met == 0 else float(betaincinv(met, seeds - met + 1, 1 - SURE))


def _sentence(plan: Plan, line: Mapping[str, Any]) -> str:
    """The answer of a line in words."""

    def said(values: Mapping[str, Any]) -> str:
        return values_text(values, plan.labels)

    who = f"{line['policy']} on {line['cluster']}"
    own, below = line["answer"], line["below"]
    if own is None:
        words = [f"{who}: none of the {len(line['tried'])} systems tried meets the goals"]
        if line["undecided"]:
            words.append(f"{len(line['undecided'])} cannot be decided with {plan.settings.seeds} seeds")
        if line["believed"]:
            words.append(f"{line['believed']} were not tried")
        return "; ".join([*words, *_unserved(plan, line)])
    cost = f"{own['cost']['total']:,.0f} {own['cost']['currency']}"
    words = [f"{who}: {said(own['values'])} for {cost}, on {own['met']} of {own['seeds']} seeds"]
    if below is not None:
        words.append(f"{said(below['values'])} fails ({missed_text(below)})")
    elif line["systems"] > 1 and line["tried"][0] is own:
        words.append("it is the least of the values given: smaller ones may do")
    if line["undecided"]:
        some = [said(line["tried"][at]["values"]) for at in line["undecided"]]
        words.append(f"{', '.join(some)}: cannot be decided with {plan.settings.seeds} seeds")
    if line["worse_above"]:
        some = [said(line["tried"][at]["values"]) for at in line["worse_above"]]
        words.append(f"more is not always better: {', '.join(some)} fails again")
    return "; ".join(words)


def _unserved(plan: Plan, line: Mapping[str, Any]) -> list[str]:
    """What helps where every system leaves work undone, and nobody said how much of it may be."""
    at = next((number for number, goal in enumerate(plan.settings.goals) if goal.unasked), None)
    shares = [] if at is None else [system["goals"][at]["mean"] or 0.0 for system in line["tried"]]
    if not shares or max(shares) >= 1:
        return []
    most = math.floor(1e4 * max(shares)) / 1e4
    return [
        f"all of them leave work undone ({100 * most:g} % is served at most), which counts as a goal that is missed: "
        f"take larger systems, or say how much is enough, such as --goal 'served >= {100 * most:g} %'"
    ]


def missed_text(system: Mapping[str, Any]) -> str:
    """Which goals a system misses, and by how much; those that it misses on most seeds first."""
    missed = sorted((goal for goal in system["goals"] if goal["met"] < system["seeds"]), key=lambda goal: goal["met"])
    words = []
    for goal in missed[:2]:
        metric = goal["goal"].partition(" ")[0]
        mean = "undefined" if goal["mean"] is None else goal["text"]
        words.append(f"{metric} is {mean} on average, {goal['goal']} holds on {goal['met']} of {system['seeds']} seeds")
    return " and ".join(words) or f"all goals hold on {system['met']} of {system['seeds']} seeds"
