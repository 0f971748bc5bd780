"""The answer in a paragraph: which policy is best at what, and by how much, as far as the runs carry it.

What may be compared, and what counts as better, is said in :mod:`unrack.metric.estimate`; what is left out of the
comparison is said in sentences of their own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from unrack.metric.estimate import MetricStanding
from unrack.report.setting import Setting, policies_of, told_apart
from unrack.report.table import share_text
from unrack.units import seconds_text


class Question(NamedTuple):
    """A metric that the answer speaks of: its name, words for it, and the words for a better and a worse value."""

    metric: str
    words: str
    best: str = "lowest"
    worst: str = "highest"
    better: str = "low"
    less: str = "less"


QUESTIONS = (
    Question("missed_deadlines", "share of missed deadlines"),
    Question("slo_broken_local", "share of servers with less local memory than their floor"),
    Question("slo_broken_remote", "share of servers with too remote memory"),
    Question("servers_rejected", "share of servers refused"),
    Question("price_per_server_h", "price of a server for an hour"),
    Question("wait_s_mean", "mean wait", "shortest", "longest"),
    Question("wait_s_max", "longest wait of any job", "shortest", "longest"),
    Question("bounded_slowdown_mean", "mean bounded slowdown"),
    Question("utilisation_cores", "core utilisation", "highest", "lowest", "high", "more"),
)
ENERGY = Question("energy_kwh", "energy")
MOST_TOLD = 4
"""Of more settings the least and the most are told."""
NOT_OF_SERVERS = ("bounded_slowdown_mean", "wait_s_max")
"""Metrics that the answer does not speak of where there are SLOs."""
_SHARES = ("missed_deadlines", "slo_broken", "servers_rejected")


def answer(settings: Sequence[Setting]) -> list[Markup]:
    """Sentences, as safe HTML; one or more."""
    runs = [run for setting in settings for own in setting.runs.values() for run in own]
    if not any(run.metrics.get("jobs_finished") for run in runs):
        return [Markup("No job finished in any run: see the reasons below.")]
    sentences = []
    servers = any("slo_broken_local" in run.metrics for run in runs)
    for question in QUESTIONS:
        if servers and question.metric in NOT_OF_SERVERS:
            continue
        every = [one for own in settings for one in own.standings(question.metric, question.better) if one.values]
        found = [one for one in every if len(one.values) > 1]
        if len(policies_of(settings)) == 1 and every:
            sentences.append(_alone(question, every))
        elif len(found or every) == 1:
            sentences.append(_one(question, (found or every)[0]))
        elif found:
            sentences.append(_several(question, found, settings))
    sentences = sentences or [Markup("The runs have none of the main metrics: see the table.")]
    return [*_unserved(settings), *_worlds(settings), *_across(settings), *sentences, *_seeds(settings)]


def _across(settings: Sequence[Setting]) -> list[Markup]:
    """What the settings make of the first metric that all have, and of energy, under a policy that served all."""
    fair = [name for name in policies_of(settings)
            if all(name in own.runs and name not in own.served_less for own in settings)]  # fmt: skip
    if len(settings) < 2 or len(policies_of(settings)) < 2 or not fair:
        return []

    def known(policy: str, metric: str) -> list[float]:
        values = [own.value(policy, metric) for own in settings]
        return [] if None in values else [value.mean for value in values if value is not None]

    asked = next((question for question in QUESTIONS if known(fair[0], question.metric)), ENERGY)
    wins = Counter(one for own in settings for at in own.standings(asked.metric, asked.better) for one in at.best)
    if not wins and any(own.served_less for own in settings):
        return []
    policy, sentences = max(fair, key=lambda name: wins[name]), []
    for question in dict.fromkeys((asked, ENERGY)):
        values = list(zip(known(policy, question.metric), told_apart(settings), strict=False))
        if len({value for value, _ in values}) > 1:
            few = len(values) <= MOST_TOLD
            parts = (Markup("<b>{}</b> ({})").format(_amount(question, value), name)
                     for value, name in (values if few else (min(values), max(values))))  # fmt: skip
            words = Markup(", " if few else " and ").join(parts)
            sentences.append(
                Markup("Under {} {} is {}{}.").format(policy, question.words, "" if few else "between ", words)
            )
    return sentences


def _unserved(settings: Sequence[Setting]) -> list[Markup]:
    """Policies that served less than others, and are in no comparison for it."""
    less: dict[str, list[float]] = {}
    for setting in settings:
        for policy, share in setting.served_less.items():
            less.setdefault(policy, []).append(share)
    if not less:
        return []
    parts = []
    for policy, shares in less.items():
        low, high = share_text(min(shares)), share_text(max(shares))
        part = low if low == high else f"{low} to {high}"
        where = f" in {len(shares)} of {len(settings)} settings" if len(settings) > 1 else ""
        parts.append(Markup("<b>{}</b> served {} of the core-time asked for{}").format(policy, part, where))
    there = " there" if len(settings) > 1 else ""
    they = "it is" if len(parts) == 1 else "these are"
    return [
        Markup(
            "{}; others served more, so {} not compared{}: what is measured on finished jobs is silent on the rest."
        ).format(Markup("; ").join(parts), they, there)
    ]


def _worlds(settings: Sequence[Setting]) -> list[Markup]:
    if all(len(setting.worlds) == 1 for setting in settings):
        return []
    return [
        Markup("Rows of world=base ran without the study's models and contention, and are compared among themselves.")
    ]


def _seeds(settings: Sequence[Setting]) -> list[Markup]:
    seeds = [setting.seeds for setting in settings]
    if len(policies_of(settings)) == 1:
        return []
    if any(setting.drawn for setting in settings):
        words = next(setting.intervals for setting in settings)
        return [Markup("One seed: differences are taken on the same draws of this log ({}).").format(words)]
    if max(seeds) == 1:
        return [Markup("One seed: the differences are exact for these jobs; other jobs may show others.")]
    if min(seeds) == 1:
        return [Markup("Some settings have one seed: differences there are exact for those jobs alone.")]
    return []


def _amount(question: Question, value: float) -> str:
    if "_s_" in question.metric:
        return seconds_text(value)
    if question.metric.startswith(_SHARES):
        return f"{100 * value:.3g} %"
    if question is ENERGY:
        return f"{value:,.4g} kWh"
    return f"{value:.1%}".replace("%", " %") if question.metric.startswith("utilisation") else f"{value:,.2f}"


def _alone(question: Question, found: Sequence[MetricStanding]) -> Markup:
    means = [value.mean for own in found for value in own.values.values()]
    words = question.words.capitalize()
    if len(means) == 1:
        return Markup("{} is <b>{}</b>.").format(words, _amount(question, means[0]))
    low, high = _amount(question, min(means)), _amount(question, max(means))
    return Markup("{} is between <b>{}</b> and <b>{}</b> over {} settings.").format(words, low, high, len(means))


def _one(question: Question, own: MetricStanding) -> Markup:
    words, values = question.words.capitalize(), own.values
    sign = 1 if question.better == "low" else -1
    ranked = sorted(values, key=lambda policy: sign * values[policy].mean)
    first, last = values[ranked[0]], values[ranked[-1]]
    if len(values) == 1:
        return Markup("{} is known under one policy only ({}): <b>{}</b>.").format(
            words, ranked[0], _amount(question, first.mean)
        )
    if not own.best and not own.among:
        if not own.gaps:
            return Markup("{} is the same under every policy: <b>{}</b>.").format(words, _amount(question, first.mean))
        return Markup("{} does not tell the policies apart over {}: from {} ({}) to {} ({}).").format(
            words, own.over, _amount(question, first.mean), ranked[0], _amount(question, last.mean), ranked[-1]
        )
    if own.among:
        return _among(question, own, ranked)
    if _amount(question, first.mean) == _amount(question, last.mean):
        return Markup("{} is about the same under every policy: <b>{}</b>.").format(
            words, _amount(question, first.mean)
        )
    top, names = values[own.best[0]], Markup(" and ").join(Markup("<b>{}</b>").format(name) for name in own.best)
    return Markup("{} is {} under {}: <b>{}</b>, {} than under {} ({}), the {}.").format(
        words, question.best, names, _amount(question, top.mean), _change(question, top.mean, last.mean),
        ranked[-1], _amount(question, last.mean), question.worst,
    )  # fmt: skip


def _among(question: Question, own: MetricStanding, ranked: Sequence[str]) -> Markup:
    some = Markup(" and ").join(
        Markup("<b>{}</b> ({})").format(name, _amount(question, own.values[name].mean)) for name in own.among[:4]
    )
    more = f" and {len(own.among) - 4} more" if len(own.among) > 4 else ""
    worst = next(name for name in reversed(ranked) if name not in own.among)
    return Markup("{} is {} under {}{}, which {} do not tell apart; under {} it is {}.").format(
        question.words.capitalize(), question.best, some, more, own.over, worst,
        _amount(question, own.values[worst].mean),
    )  # fmt: skip


def _several(question: Question, found: Sequence[MetricStanding], settings: Sequence[Setting]) -> Markup:
    wins = Counter(own.best for own in found if own.best)
    open_ = sum(bool(own.gaps) and not own.best for own in found)
    behind = Counter(policy for own in found if own.among for policy in own.values if policy not in own.among)
    of = f" of {len(found)} settings"
    if len(found) < sum(len(setting.worlds) for setting in settings):
        of += " with several to compare"
    counts = Markup(", ").join(
        Markup("{} in {}").format(Markup(" and ").join(Markup("<b>{}</b>").format(one) for one in best), count)
        for best, count in wins.most_common(4)
    )
    said = [Markup("{} under {}{}").format(question.best, counts, of)] if wins else []
    if open_:
        drawn = "draws" if any(own.drawn for own in found) else "seeds"
        said.append(Markup("open in {}{}, as the {} tell no best policy").format(open_, "" if wins else of, drawn))
    if behind:
        said.append(Markup(", ").join(Markup("{} is behind in {}").format(*one) for one in behind.most_common(4)))
    first = policies_of(settings)[0]
    other = next((policy for some, _ in wins.most_common() for policy in some if policy != first), None)
    values = [own.values for own in found if own.best or not own.gaps]
    pairs = [(v[other].mean, v[first].mean) for v in values if other and other in v and first in v and v[first].mean]
    if pairs:
        ends = [round(100 * (end(value / base for value, base in pairs) - 1)) for end in (min, max)]
        by = " to ".join(f"{end:+d}" if end else "0" for end in dict.fromkeys(ends))
        said.append(Markup("{} changes it by {} % against {}").format(other, by, first))
    said = said or [Markup("the same under every policy in each{}").format(of)]
    return Markup("{} is {}.").format(question.words.capitalize(), Markup("; ").join(said))


def _change(question: Question, value: float, base: float) -> str:
    if question.metric.startswith(("utilisation", *_SHARES)):
        return f"{abs(value - base) * 100:.1f} points {question.less}"
    if math.isclose(base, 0.0, abs_tol=1e-12):
        return question.less
    percent = abs(1 - value / base) * 100
    return f"{percent:.{1 if 99 < percent < 100 else 0}f} % {question.less}"
