"""What decided that a system meets the goals or fails: seeds, values and margins, as numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unrack.facts import some
from unrack.plan.goal import Goal, Trial
from unrack.plan.search import SURE, GoalRule


def values_text(values: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The values of a system, by key, in few words.

    Examples
    --------
    >>> values_text({"clusters.0.pools.0.count": 10}, {"clusters.0.pools.0.count": "drives of the pool nvme"})
    'drives of the pool nvme = 10'
    """
    return ", ".join(f"{labels.get(key, key)} = {shown(value)}" for key, value in values.items()) or "as it is"


def shown(value: Any) -> str:
    """A value of a key for people.

    Examples
    --------
    >>> shown(0.25), shown("64 GB"), shown(1000)
    ('0.25', '64 GB', '1,000')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


MOST_LISTED = 6
"""Seeds that are named."""


def of_goal(rule: GoalRule, goal: Goal, trials: Sequence[Trial]) -> dict[str, Any]:
    """How far a system reaches a goal; of several workloads, in the one that is worst.

    Returns
    -------
    dict
        ``value``: what decides, of the seed at which the share is reached or lost, or the mean; ``text``: in words;
        ``low``, ``high``: over the seeds, or the bounds of the mean; ``margin``: how far what decides is on the good
        side (of a mean, its bound), as a share of the value to be reached; ``met``: on how many seeds; ``missed_on``,
        ``missed`` and ``off``: seeds, values there, and their margins. Values of relative goals are shares of the
        reference's; ``None``: it has none.
    """
    places = [min(range(len(trial.values)), key=lambda at: trial.gap(goal, at)) for trial in trials]
    values = [goal.measured(*trial.of(goal, at)) for trial, at in zip(trials, places, strict=True)]
    margins = [goal.margin(*trial.of(goal, at)) for trial, at in zip(trials, places, strict=True)]
    missed = [seed for seed, trial in enumerate(trials) if not trial.met(goal)]
    if rule.share is None and not goal.unasked:
        found = _of_mean(rule, goal, trials)
    else:
        order = sorted(range(len(trials)), key=lambda seed: (margins[seed] is not None, margins[seed] or 0.0))
        at = order[_place(rule, len(trials), len(trials) - len(missed))]
        known = [value for value in values if value is not None]
        found = {"value": values[at], "margin": margins[at], "low": min(known, default=None)}
        found["high"] = max(known, default=None)
    return {
        "text": "–" if found["value"] is None else goal.text(found["value"]),
        **found,
        "met": len(trials) - len(missed),
        "missed_on": missed,
        "missed": [values[seed] for seed in missed],
        "off": [margins[seed] for seed in missed],
    }


def _place(rule: GoalRule, seeds: int, met: int) -> int:
    """Which seed decides, the worst one being 0: the first that may not miss the goal."""
    if rule.share is None:
        return 0
    if rule.confidence is not None:
        return min(math.floor((1 - rule.share) * seeds + 1e-9), seeds - 1)
    return seeds - rule.needed if met >= rule.needed else min(rule.seeds - rule.needed, seeds - 1)


def _of_mean(rule: GoalRule, goal: Goal, trials: Sequence[Trial]) -> dict[str, Any]:
    """The mean and its bounds, in the workload in which it is worst."""
    gaps = [[trial.gap(goal, at) for trial in trials] for at in range(len(trials[0].values))]
    own = min(range(len(gaps)), key=lambda at: math.fsum(gaps[at]))
    values = [goal.measured(*trial.of(goal, own)) for trial in trials]
    wants = [goal.threshold(trial.of(goal, own)[1]) for trial in trials]
    if -math.inf in gaps[own] or None in values or None in wants:
        return {"value": None, "margin": None, "low": None, "high": None}
    mean = math.fsum(value or 0.0 for value in values) / len(values)
    want = abs(math.fsum(one or 0.0 for one in wants) / len(wants))
    least, most = rule.of_mean(gaps[own], sum(not one.unasked for one in rule.goals) * len(gaps))
    decides = least if least > 0 else most if most < 0 else math.fsum(gaps[own]) / len(gaps[own])
    bounds = sorted(mean + (1 if goal.low_is_good else -1) * (math.fsum(gaps[own]) / len(gaps[own]) - bound)
                    for bound in (least, most) if math.isfinite(bound))  # fmt: skip
    if goal.relative:  # gaps are in the unit of the metric
        bounds = [mean + (bound - mean) / (want / goal.value) for bound in bounds] if want else []
    margin = round(decides / want, 12) if want else None
    return {"value": mean, "margin": margin, "low": min(bounds, default=None), "high": max(bounds, default=None)}


def certain_text(rule: GoalRule, system: Mapping[str, Any], drawn: bool) -> str:
    """On how many of all seeds a system meets the goals, with which confidence."""
    if not drawn:
        return "in the one run that there is, as nothing is drawn"
    if rule.seeds == 1:
        return "on the one seed that was run, which says nothing of others"
    met = f"on {system['met']} of {system['seeds']} seeds"
    if rule.confidence is not None and rule.share is None:
        return f"in the mean of all seeds with {100 * rule.confidence:g} % confidence ({met})"
    sure = SURE if rule.confidence is None else rule.confidence
    return f"{met}: on {share_text(system['at_least'])} of all seeds at least, with {100 * sure:g} % confidence"


def missed_text(rule: GoalRule, goals: Sequence[Goal], system: Mapping[str, Any]) -> str:
    """Why a system fails, or is not decided: the seeds, the values there, and how far these are off."""
    missed = sorted({seed for own in system["goals"] for seed in own["missed_on"]})
    pairs = zip(goals, system["goals"], strict=True)
    words = [_goal_text(goal, own, len(missed)) for goal, own in pairs if own["missed_on"]]
    count = f"{system['seeds']} seed{'s' * (system['seeds'] > 1)} run"
    if rule.share is None:
        return _mean_text(goals, system)
    if rule.seeds == 1:
        head = "on the one seed"
    elif rule.confidence is None:
        may = rule.seeds - rule.needed
        head = (
            f"missed on {len(missed)} of the {count} ({_listed(missed)}), where {may or 'none'} of {rule.seeds} may be"
        )
    else:
        bounds = f"{share_text(system['at_least'])} to {share_text(system['at_most'])} of all seeds"
        head = f"met on {system['met']} of the {count}: {bounds}, where {100 * rule.share:g} % is wanted"
    return f"{head}: {'; '.join(words)}" if words else head


def _goal_text(goal: Goal, own: Mapping[str, Any], missed: int) -> str:
    """The values that miss a goal, and by what share of it; ``missed``: seeds on which any goal is missed."""
    known = [value for value in own["missed"] if value is not None]
    off = [abs(margin) for margin in own["off"] if margin is not None and math.isfinite(margin)]
    count = len(own["missed_on"])
    where = "" if count == missed else f" on {count} of them"
    if not known:
        return f"{goal.metric} is undefined{where}, where {_want(goal)} is wanted"
    by = f", off by {_between([_share_text(margin) for margin in (min(off), max(off))])} of that" if off else ""
    values = _between([goal.text(min(known)), goal.text(max(known))])
    return f"{goal.metric} is {values}{where}, where {_want(goal)} is wanted{by}"


def _mean_text(goals: Sequence[Goal], system: Mapping[str, Any]) -> str:
    words = []
    for goal, own in zip(goals, system["goals"], strict=True):
        if goal.unasked and own["missed_on"]:
            words.append(f"{_goal_text(goal, own, len(own['missed_on']))} ({_listed(own['missed_on'])})")
        elif not goal.unasked and own["value"] is None:
            words.append(f"{goal.metric} is undefined on a seed, where {_want(goal)} is wanted")
        elif not goal.unasked and (own["margin"] is None or own["margin"] <= 0 or _between_bounds(goal, own)):
            bounds = [own["low"], own["high"]]
            between = "" if None in bounds else f", surely {goal.text(bounds[0])} to {goal.text(bounds[1])}"
            words.append(f"the mean of {goal.metric} over {system['seeds']} seeds is {own['text']}{between}, "
                         f"where {_want(goal)} is wanted")  # fmt: skip
    return "; ".join(words)


def _between_bounds(goal: Goal, own: Mapping[str, Any]) -> bool:
    return own["low"] is None or own["high"] is None or own["low"] <= goal.value <= own["high"]


def _want(goal: Goal) -> str:
    return str(goal).partition(" ")[2]


def _between(texts: Sequence[str]) -> str:
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


def _share_text(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 10 else f"{share:,.0f} times"


def _listed(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {some(list(map(str, seeds)), MOST_LISTED)}"


def share_text(share: float) -> str:
    """A share of all seeds.

    Examples
    --------
    >>> share_text(0.71687)
    '71.7 %'
    """
    return f"{100 * share:.3g} %"
