"""What a reproduction leaves behind: a page in Markdown with its figure, and the numbers as CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unrack.errors import InputError
from unrack.report.reproduce.claim import Claim, Finding, Verdict
from unrack.report.reproduce.experiment import Options
from unrack.report.reproduce.long_form import as_csv
from unrack.report.reproduce.measured import INSIDE, NEAR, OUTSIDE, Measured
from unrack.report.reproduce.sheet import OURS_ONLY, as_markdown, sheets_of

WANTED_SEEDS = 20
"""Fewer are allowed, with a warning."""
SIGNS = {Verdict.HOLDS: "✓", Verdict.NOISE: "≈", Verdict.FAILS: "✗", Verdict.UNKNOWN: "?"}
Judged = Sequence[tuple[Claim, Finding]]


def judged(measured: Measured) -> list[tuple[Claim, Finding]]:
    """Every claim with its finding."""
    return [(claim, claim.judge(measured)) for claim in measured.reproduction.claims]


def legend(measured: Measured) -> str:
    """What the signs in the tables mean; ``""`` where there are none."""
    one, words = measured.reproduction, []
    if one.printed:
        words.append(
            f"After a value of the paper: {INSIDE} inside our 95 % interval, {NEAR} outside it but between our least "
            f"and greatest seed, {OUTSIDE} outside both."
        )
    if any(not row.printed for group in measured.groups for row in measured.rows(group)):
        words.append(f"{OURS_ONLY} not in the paper.")
    if not one.counts:
        rows = [row for group in measured.groups for row in measured.rows(group)]
        own = "; First Fit's is its own, as it uses no models" if any(row.policy == "first-fit" for row in rows) else ""
        words.append(f"bound: % of deadlines that no policy could meet{own}.")
    return " ".join(words)


def cells_found(measured: Measured) -> str:
    """How many of the paper's values lie where; ``""`` where the paper prints none."""
    marks = [found.mark for found in measured.cells() if found.mark]
    if not marks:
        return ""
    inside, near, outside = (marks.count(mark) for mark in (INSIDE, NEAR, OUTSIDE))
    return (
        f"Of {len(marks)} values of the paper, {inside} lie inside our 95 % interval, {near} more between our least "
        f"and greatest seed, {outside} outside. Mean absolute difference: {distances(measured)}."
    )


def distances(measured: Measured) -> str:
    """The mean absolute difference to the paper's values, by column."""
    found: dict[str, list[float]] = {}
    for cell in measured.cells():
        if cell.difference is not None:
            found.setdefault(cell.quantity.label, []).append(abs(cell.difference))
    means = {label: sum(values) / len(values) for label, values in found.items()}
    return ", ".join(f"{label} {mean:.{measured.quantity(label).decimals}f}" for label, mean in means.items())


def stem(measured: Measured) -> str:
    """The name of the files: the reproduction's, and what differs from the default."""
    name, variant = measured.reproduction.name, measured.options.variant
    return f"{name}-{variant}" if variant else name


def varied(options: Options) -> str:
    """The options in words."""
    words = [f"{options.seeds} seed{'s' if options.seeds > 1 else ''}", f"{options.jobs} jobs"]
    words += ["Poisson arrivals" if options.arrivals == "poisson" else "evenly spaced arrivals"]
    words += ["frozen speeds"] if options.frozen else []
    return ", ".join([*words, *(f"a load of {load:g} offered at {x:g}" for x, load in options.offers)])


def command(measured: Measured) -> str:
    """The command that makes these results again."""
    options, default = measured.options, Options()
    words = ["unrack reproduce", measured.reproduction.name]
    words += [f"--seeds {options.seeds}"] if options.seeds != default.seeds else []
    words += [f"--workload-jobs {options.jobs}"] if options.jobs != default.jobs else []
    words += [f"--arrivals {options.arrivals}"] if options.arrivals != default.arrivals else []
    words += ["--frozen"] if options.frozen else []
    words += [f"--offer {x:g}={load:g}" for x, load in options.offers]
    return " ".join(words)


def as_page(measured: Measured, findings: Judged) -> str:
    """The page: setup, figure, claims, numbers and known differences."""
    one = measured.reproduction
    lines = [
        f"# {one.shows}: {one.summary}",
        f"*{one.paper}. Written by `{command(measured)}`: {varied(measured.options)}.*",
        one.setup,
        *_warnings(measured),
        f"![{one.shows}]({stem(measured)}.svg)",
        "## Claims",
        "\n".join(_claim(measured, claim, finding) for claim, finding in findings),
        "## Numbers",
        *([cells_found(measured)] if cells_found(measured) else []),
    ]
    for sheet in sheets_of(measured):
        lines += [f"Each cell: {sheet.title}. {legend(measured)}".rstrip(), as_markdown(sheet)]
    lines += [f"All numbers: [{stem(measured)}.csv]({stem(measured)}.csv).", "## Where our setup may differ"]
    lines += ["\n".join(f"* {note}" for note in one.notes)]
    return "\n\n".join(lines) + "\n"


def _warnings(measured: Measured) -> list[str]:
    return [f"**{warning}**" for warning in warnings_of(measured)]


def warnings_of(measured: Measured) -> list[str]:
    """What a reader must know before the numbers."""
    found = []
    if measured.options.seeds < WANTED_SEEDS:
        found.append(f"Too few seeds ({measured.options.seeds}, wanted {WANTED_SEEDS} or more): intervals are wide.")
    if measured.without_window:
        found.append(
            f"{measured.without_window} pairs of workload and seed never reached the load at which measuring starts, "
            "and are left out."
        )
    return found


def numbers_of(finding: Finding) -> list[str]:
    """The numbers of a claim: a line for each thing measured, each number with its own sign."""
    return [
        f"{subject}: {'; '.join(f'{check} {SIGNS[check.verdict]}' for check in checks)}"
        for subject, checks in finding.by_subject().items()
    ]


def own_numbers(measured: Measured, claim: Claim) -> str:
    """Whether the paper's printed numbers bear the claim out; ``""`` where it prints none for it."""
    verdict = claim.judge(measured.of_the_paper()).verdict
    return "" if verdict == Verdict.UNKNOWN else f"by the paper's own numbers it {verdict}"


def _claim(measured: Measured, claim: Claim, finding: Finding) -> str:
    own = own_numbers(measured, claim)
    lines = [
        f"* {SIGNS[finding.verdict]} **{finding.verdict}** – {claim.sentence} "
        f"({claim.source}{f'; {own}' if own else ''}).",
        *numbers_of(finding),
    ]
    return "<br>".join(lines)


def as_table(measured: Measured, findings: Judged) -> dict[str, Any]:
    """Everything as plain values, for ``--json``."""
    from unrack.report.reproduce.long_form import long_rows

    one, options = measured.reproduction, measured.options
    return {
        "name": one.name,
        "shows": one.shows,
        "seeds": options.seeds,
        "jobs": options.jobs,
        "arrivals": options.arrivals,
        "frozen": options.frozen,
        "offers": {f"{x:g}": load for x, load in options.offers},
        "claims": [
            {
                "claim": claim.sentence,
                "source": claim.source,
                "verdict": str(finding.verdict),
                "by_the_papers_numbers": str(claim.judge(measured.of_the_paper()).verdict),
                "checks": [
                    {
                        "subject": check.subject,
                        "where": check.where,
                        "value": None if check.value is None else check.value.mean,
                        "half": None if check.value is None else check.value.half,
                        "unit": check.unit,
                        "verdict": str(check.verdict),
                    }
                    for check in finding.checks
                ],
            }
            for claim, finding in findings
        ],
        "rows": long_rows(measured),
        "warnings": warnings_of(measured),
    }


def write(measured: Measured, findings: Judged, directory: Path) -> tuple[Path, ...]:
    """Write ``NAME.md``, ``.csv``, ``.svg`` and ``.png``, NAME as :func:`stem` has it; returns their paths.

    Raises
    ------
    InputError
        The directory cannot be made or written to.
    """
    import vl_convert

    name = stem(measured)
    spec = json.dumps(measured.reproduction.draw(measured))
    contents: dict[str, bytes] = {
        "md": as_page(measured, findings).encode(),
        "csv": as_csv(measured).encode(),
        "svg": str(vl_convert.vegalite_to_svg(spec)).encode(),
        "png": bytes(vl_convert.vegalite_to_png(spec, scale=2)),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for ending, content in contents.items():
            (directory / f"{name}.{ending}").write_bytes(content)
    except OSError as error:
        got = error.strerror or str(error)
        raise InputError(str(directory), got, "a directory that can be made and written to") from None
    return tuple(directory / f"{name}.{ending}" for ending in contents)
