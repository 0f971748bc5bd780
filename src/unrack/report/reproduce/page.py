"""What a reproduction leaves behind: a page in Markdown with its figure, and the numbers as CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unrack.errors import InputError
from unrack.report.reproduce.claim import Claim, Finding, Verdict
from unrack.report.reproduce.long_form import as_csv
from unrack.report.reproduce.measured import INSIDE, NEAR, OUTSIDE, Measured
from unrack.report.reproduce.sheet import OURS_ONLY, as_markdown, sheets_of
from unrack.study.world import World

SIGNS = {Verdict.HOLDS: "✓", Verdict.NOISE: "≈", Verdict.FAILS: "✗", Verdict.UNKNOWN: "?"}
Judged = Sequence[tuple[Claim, Finding]]


def judged(measured: Measured) -> list[tuple[Claim, Finding]]:
    """Every claim with its finding."""
    return [(claim, claim.judge(measured)) for claim in measured.reproduction.claims]


def legend(measured: Measured) -> str:
    """What the signs in the tables mean; ``""`` where there are none."""
    one, words = measured.reproduction, []
    if one.printed and not one.exact:
        words.append(
            f"After a value of the paper: {INSIDE} inside our 95 % interval, {NEAR} outside it but between our least "
            f"and greatest seed, {OUTSIDE} outside both."
        )
    if any(not row.printed for group in measured.groups for row in measured.rows(group)):
        words.append(f"{OURS_ONLY} not in the paper.")
    if one.bounded:
        words.append("bound: % of deadlines that no policy could meet in the world of the row.")
    if any(row.world != World.STUDY for group in measured.groups for row in measured.rows(group)):
        words.append("base times: these jobs run without models of sharing, in another world than those beside them.")
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
    one = measured.reproduction
    name, variant = one.name, measured.options.variant(one.defaults)
    return f"{name}-{variant}" if variant else name


def varied(measured: Measured) -> str:
    """The options in words."""
    options, takes = measured.options, measured.reproduction.takes
    words = [f"{options.seeds} seed{'s' if options.seeds > 1 else ''}"] if "seeds" in takes else []
    words += [f"{options.jobs} jobs"] if "jobs" in takes else []
    words += [f"a load of {options.load:g}"] if options.load is not None else []
    if "arrivals" in takes:
        words += ["Poisson arrivals" if options.arrivals == "poisson" else "evenly spaced arrivals"]
    if "profiles" in takes:
        words += [f"profiles of {Path(options.profiles).name}" if options.profiles else "synthetic profiles"]
    if "servers" in takes:
        words += [f"the servers of {Path(options.servers).name}" if options.servers else "servers drawn by Table 2"]
    words += ["frozen speeds"] if options.frozen else []
    words += [f"a load of {load:g} offered at {x:g}" for x, load in options.offers]
    return ", ".join(words) or "nothing is drawn"


def command(measured: Measured) -> str:
    """The command that makes these results again."""
    options, default = measured.options, measured.reproduction.defaults
    words = ["unrack reproduce", measured.reproduction.name]
    words += [f"--seeds {options.seeds}"] if options.seeds != default.seeds else []
    words += [f"--workload-jobs {options.jobs}"] if options.jobs != default.jobs else []
    words += [f"--arrivals {options.arrivals}"] if options.arrivals != default.arrivals else []
    words += ["--frozen"] if options.frozen else []
    words += [f"--offer {x:g}={load:g}" for x, load in options.offers]
    words += [f"--load {options.load:g}"] if options.load != default.load and options.load is not None else []
    words += [f"--profiles {Path(options.profiles).name}"] if options.profiles else []
    cores = options.profile_cores
    words += [f"--profile-cores {cores}"] if options.profiles and cores != default.profile_cores else []
    words += [f"--servers {Path(options.servers).name}"] if options.servers else []
    return " ".join(words)


def as_page(measured: Measured, findings: Judged) -> str:
    """The page: setup, figure, claims, numbers and known differences."""
    one = measured.reproduction
    lines = [
        f"# {one.shows}: {one.summary}",
        f"*{one.paper}. Written by `{command(measured)}`: {varied(measured)}.*",
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
    wanted = measured.reproduction.defaults.seeds
    if measured.options.seeds < wanted:
        found.append(f"Too few seeds ({measured.options.seeds}, wanted {wanted} or more): intervals are wide.")
    if measured.without_window:
        found.append(
            f"{measured.without_window} pairs of workload and seed never reached the load at which measuring starts, "
            "and are left out."
        )
    rejected = [place for place in measured.values if any(seed.get("jobs_rejected") for seed in measured.values[place])]
    if rejected:
        names = "; ".join(f"{group}, {x}, {row}" for group, x, row in rejected)
        found.append(f"Jobs were rejected, and throughput is not of all of them: {names}.")
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
        **_options(measured),
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


def _options(measured: Measured) -> dict[str, Any]:
    """The options that apply, but for the seeds, as plain values."""
    options = measured.options
    found = {
        "jobs": options.jobs,
        "arrivals": options.arrivals,
        "frozen": options.frozen,
        "offers": {f"{x:g}": load for x, load in options.offers},
        "load": options.load,
        "profiles": options.profiles,
        "profile_cores": options.profile_cores,
        "servers": options.servers,
    }
    return {name: value for name, value in found.items() if name in measured.reproduction.takes}


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
