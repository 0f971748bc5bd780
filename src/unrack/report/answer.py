"""The answer in a paragraph: which policy is best at what, and by how much."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from unrack.report.setting import Estimate, Setting, best_of, of_one_world, policies_of
from unrack.units import seconds_text


class Question(NamedTuple):
    """A metric that the answer speaks of: its name, words for it, and the words for a better and a worse value."""

    metric: str
    words: str
    better: str
    best: str
    less: str
    worst: str


QUESTIONS = (
    Question("missed_deadlines", "share of missed deadlines", "low", "lowest", "less", "highest"),
    Question("slo_broken_local", "share of servers with less local memory than their floor", "low", "lowest", "less",
             "highest"),
    Question("slo_broken_remote", "share of servers whose memory is too remote", "low", "lowest", "less", "highest"),
    Question("servers_rejected", "share of servers refused", "low", "lowest", "less", "highest"),
    Question("price_per_server_h", "price of a server for an hour", "low", "lowest", "less", "highest"),
    Question("wait_s_mean", "mean wait", "low", "shortest", "less", "longest"),
    Question("bounded_slowdown_mean", "mean bounded slowdown", "low", "lowest", "less", "highest"),
    Question("utilisation_cores", "core utilisation", "high", "highest", "more", "lowest"),
)  # fmt: skip
NOT_OF_SERVERS = ("bounded_slowdown_mean",)
"""Metrics that the answer does not speak of where there are SLOs."""
_SHARES = ("missed_deadlines", "slo_broken", "servers_rejected")


def answer(settings: Sequence[Setting]) -> list[Markup]:
    """Sentences, as safe HTML; one or more."""
    every, settings = policies_of(settings), [of_one_world(setting) for setting in settings]
    runs = [run for setting in settings for own in setting.runs.values() for run in own]
    if not any(run.metrics.get("jobs_finished") for run in runs):
        return [Markup("No job finished in any run: see the reasons below.")]
    sentences = []
    servers = any("slo_broken_local" in run.metrics for run in runs)
    for question in QUESTIONS:
        if servers and question.metric in NOT_OF_SERVERS:
            continue
        found = [(setting, setting.values(question.metric)) for setting in settings]
        found = [(setting, values) for setting, values in found if values]
        if not found:
            continue
        if len(policies_of(settings)) == 1:
            sentences.append(_alone(question, found))
        elif len(found) == 1:
            sentences.append(_one(question, found[0][1]))
        else:
            sentences.append(_several(question, found))
    elsewhere = [policy for policy in every if policy not in policies_of(settings)]
    if elsewhere:
        sentences.append(_elsewhere(elsewhere))
    return sentences or [Markup("The runs have none of the main metrics: see the table.")]


def _elsewhere(policies: Sequence[str]) -> Markup:
    """Which policies are left out of the comparison, because their jobs run in another world."""
    names = Markup(", ").join(Markup("<b>{}</b>").format(policy) for policy in policies)
    return Markup(
        "Not compared here: {}. There jobs run their base times, without the study's models and contention: policy and "
        "world both differ from the other rows."
    ).format(names)


def _amount(question: Question, value: float) -> str:
    if question.metric.endswith("_s_mean"):
        return seconds_text(value)
    if question.metric.startswith(_SHARES):
        return f"{100 * value:.3g} %"
    return f"{value:.1%}".replace("%", " %") if question.metric.startswith("utilisation") else f"{value:,.2f}"


def _alone(question: Question, found: Sequence[tuple[Setting, Mapping[str, Estimate]]]) -> Markup:
    means = [value.mean for _, values in found for value in values.values()]
    words = question.words.capitalize()
    if len(means) == 1:
        return Markup("{} is <b>{}</b>.").format(words, _amount(question, means[0]))
    low, high = _amount(question, min(means)), _amount(question, max(means))
    return Markup("{} is between <b>{}</b> and <b>{}</b> over {} settings.").format(words, low, high, len(means))


def _one(question: Question, values: Mapping[str, Estimate]) -> Markup:
    words, best = question.words.capitalize(), best_of(values, question.better)
    if not best:
        amount = _amount(question, next(iter(values.values())).mean)
        who = (
            "the same under every policy" if len(values) > 1 else f"known under one policy only ({next(iter(values))})"
        )
        return Markup("{} is {}: <b>{}</b>.").format(words, who, amount)
    sign = 1 if question.better == "low" else -1
    ranked = sorted(values, key=lambda policy: sign * values[policy].mean)
    top, worst = values[best[0]], values[ranked[-1]]
    if _amount(question, top.mean) == _amount(question, worst.mean):
        return Markup("{} is about the same under every policy: <b>{}</b>.").format(words, _amount(question, top.mean))
    names = Markup(" and ").join(Markup("<b>{}</b>").format(name) for name in best)
    sentence = Markup("{} is {} under {}: <b>{}</b>, {} than under {} ({}), the {}").format(
        words, question.best, names, _amount(question, top.mean), _change(question, top.mean, worst.mean),
        ranked[-1], _amount(question, worst.mean), question.worst,
    )  # fmt: skip
    rest = [policy for policy in ranked if policy not in best]
    if top.count > 1 and rest and abs(values[rest[0]].mean - top.mean) <= values[rest[0]].half + top.half:
        sentence += Markup("; it is not clearly better than {}: their 95 % intervals overlap").format(rest[0])
    return sentence + Markup(".")


def _several(question: Question, found: Sequence[tuple[Setting, Mapping[str, Estimate]]]) -> Markup:
    wins: Counter[str] = Counter()
    for _, values in found:
        wins.update(best_of(values, question.better))
    words = question.words.capitalize()
    if not wins:
        return Markup("{} is the same under every policy in each of {} settings.").format(words, len(found))
    order = sorted(wins, key=lambda policy: -wins[policy])
    counts = Markup(", ").join(Markup("<b>{}</b> in {}").format(policy, wins[policy]) for policy in order[:4])
    sentence = Markup("{} is {} under {} of {} settings").format(words, question.best, counts, len(found))
    first = policies_of([setting for setting, _ in found])[0]
    other = next((policy for policy in order if policy != first), None)
    pairs = [(v[other].mean, v[first].mean) for _, v in found if other and other in v and first in v and v[first].mean]
    if pairs:
        changes = [100 * (value / base - 1) for value, base in pairs]
        least, most = f"{min(changes):+.0f} %", f"{max(changes):+.0f} %"
        by = least if least == most else f"{least} to {most}"
        sentence += Markup("; against {}, the first listed, {} changes it by {}").format(first, other, by)
    return sentence + Markup(".")


def _change(question: Question, value: float, base: float) -> str:
    if question.metric.startswith(("utilisation", *_SHARES)):
        return f"{abs(value - base) * 100:.1f} points {question.less}"
    if math.isclose(base, 0.0, abs_tol=1e-12):
        return question.less
    percent = abs(1 - value / base) * 100
    return f"{percent:.{1 if 99 < percent < 100 else 0}f} % {question.less}"
