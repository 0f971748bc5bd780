"""What a reproduction leaves behind: a page in Markdown with its figure, and the numbers as CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unrack.errors import InputError
from unrack.papers.claim import Claim, Finding
from unrack.papers.long_form import as_csv
from unrack.papers.measured import Measured
from unrack.papers.options import FLAGS
from unrack.papers.sheet import OURS_ONLY, as_markdown, sheets_of
from unrack.papers.verdict import SIGNS, Verdict
from unrack.study.world import World

Judged = Sequence[tuple[Claim, Finding]]


def judged(measured: Measured) -> list[tuple[Claim, Finding]]:
    """Every claim with its finding."""
    return [(claim, claim.judge(measured)) for claim in measured.reproduction.claims]


def legend(measured: Measured) -> str:
    """What the signs in the tables mean; ``""`` where there are none."""
    one, words = measured.reproduction, []
    if one.printed:
        agrees, differs, open_ = (SIGNS[verdict] for verdict in Verdict)
        lines = [text for sheet in sheets_of(measured) for line in sheet.lines for cell in line for text in cell.lines]
        if any(text.endswith((agrees, differs, open_)) for text in lines):
            words.append(
                f"After a value of the paper: {agrees} we agree, {differs} we differ, {open_} cannot be judged."
            )
        words.append(_tolerances(measured))
    if any(not row.printed for group in measured.groups for row in measured.rows(group)):
        words.append(f"{OURS_ONLY} not in the paper.")
    if one.bounded:
        words.append("bound: % of deadlines that no policy could meet in the world of the row.")
    if any(row.world != World.STUDY for group in measured.groups for row in measured.rows(group)):
        words.append("base times: these jobs run without models of sharing, in another world than those beside them.")
    return " ".join(words)


def cells_found(measured: Measured) -> str:
    """How many of the paper's values lie where; ``""`` where the paper prints none."""
    found = [cell for cell in measured.cells() if cell.verdict is not None]
    if not found:
        return ""
    agree, differ, open_ = (sum(cell.verdict is verdict for cell in found) for verdict in Verdict)
    near = sum(cell.verdict is Verdict.DIFFERS and cell.near for cell in found)
    chance = f" ({near} of these lie between our least and greatest seed, as a single run's may)" if near else ""
    return (
        f"Of {len(found)} values of the paper, we agree with {agree}, differ from {differ}{chance}, and {open_} cannot "
        f"be judged. Mean absolute difference: {distances(measured)}."
    )


def claims_found(findings: Judged) -> str:
    """How many claims we agree with, differ from and cannot judge."""
    agree, differ, open_ = (sum(finding.verdict is verdict for _, finding in findings) for verdict in Verdict)
    return f"Of {len(findings)} claims, we agree with {agree}, differ from {differ}, and {open_} cannot be judged."


def _tolerances(measured: Measured) -> str:
    """Up to which differences we agree, in words."""
    labels = {label for values in measured.reproduction.printed.values() for label in values}
    parts = []
    for one in measured.reproduction.quantities:
        if one.label in labels:
            unit = {"%": " points", "": ""}.get(one.unit, f" {one.unit}")
            limits = [f"{one.tolerance:g}{unit}"] if one.tolerance else []
            limits += [f"{one.share:.0%}".replace("%", " %")] if one.share else []
            parts.append(f"{one.label} {' or '.join(limits)}" if limits else f"{one.label} to the digit")
    return f"Tolerances: {', '.join(parts)}."


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
    moved = ", arrivals moved by up to 30 s but for seed 0" if options.seeds > 1 else ""
    trace = f"the jobs of {Path(options.trace).name}{moved}" if options.trace else ""
    words += [trace] if trace else [f"{options.jobs} jobs"] if "jobs" in takes else []
    words += [f"a load of {options.load:g}"] if options.load is not None and not trace else []
    if "arrivals" in takes:
        words += ["Poisson arrivals" if options.arrivals == "poisson" else "evenly spaced arrivals"]
    if "profiles" in takes:
        words += [f"profiles of {Path(options.profiles).name}" if options.profiles else "synthetic profiles"]
    if "servers" in takes:
        words += [f"the servers of {Path(options.servers).name}" if options.servers else "servers drawn by Table 2"]
    words += ["frozen speeds"] if options.frozen else []
    words += ["late jobs may join others"] if options.late_joins else []
    words += ["loads of running jobs"] if options.running_load else []
    words += ["the authors' shortcuts"] if options.shortcuts else []
    words += ["attached drives four and six"] if options.attached != "6-4" else []
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
    words += [FLAGS[way] for way in ("late_joins", "running_load", "shortcuts") if getattr(options, way)]
    words += [f"--attached {options.attached}"] if options.attached != default.attached else []
    words += [f"--offer {x:g}={load:g}" for x, load in options.offers]
    words += [f"--load {options.load:g}"] if options.load != default.load and options.load is not None else []
    words += [f"--trace {Path(options.trace).name}"] if options.trace else []
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
        claims_found(findings),
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
    verdict = of_its_own(measured, claim)
    words = {Verdict.AGREES: "holds", Verdict.DIFFERS: "does not hold"}
    return "" if verdict is None else f"by the paper's own numbers it {words[verdict]}"


def of_its_own(measured: Measured, claim: Claim) -> Verdict | None:
    """What the paper's printed numbers say about its claim; ``None`` where it does not print them all."""
    verdict = claim.judge(measured.of_the_paper()).verdict
    return None if verdict is Verdict.OPEN else verdict


def verdict_of(finding: Finding) -> str:
    """The verdict in words, with what stands in its way."""
    return f"{finding.verdict} ({finding.why})" if finding.why else str(finding.verdict)


def _claim(measured: Measured, claim: Claim, finding: Finding) -> str:
    own = own_numbers(measured, claim)
    lines = [
        f"* {SIGNS[finding.verdict]} **{verdict_of(finding)}** – {claim.sentence} "
        f"({claim.source}{f'; {own}' if own else ''}).",
        *numbers_of(finding),
    ]
    return "<br>".join(lines)


def as_table(measured: Measured, findings: Judged) -> dict[str, Any]:
    """Everything as plain values, for ``--json``."""
    from unrack.papers.long_form import long_rows

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
                "why": finding.why,
                "by_the_papers_numbers": of_its_own(measured, claim),
                "checks": [
                    {
                        "subject": check.subject,
                        "where": check.where,
                        "value": None if check.value is None else check.value.mean,
                        "half": None if check.value is None else check.value.half,
                        "unit": check.unit,
                        "verdict": str(check.verdict),
                        "why": check.why,
                    }
                    for check in finding.checks
                ],
            }
            for claim, finding in findings
        ],
        "claims_found": counted([finding.verdict for _, finding in findings]),
        "values_found": counted([cell.verdict for cell in measured.cells()]),
        "rows": long_rows(measured),
        "warnings": warnings_of(measured),
    }


def counted(verdicts: Sequence[Verdict | None]) -> dict[str, int]:
    """How many there are of each verdict."""
    return {str(verdict): sum(one is verdict for one in verdicts) for verdict in Verdict}


def _options(measured: Measured) -> dict[str, Any]:
    """The options that apply, but for the seeds, as plain values."""
    options = measured.options
    found = {
        "jobs": options.jobs,
        "arrivals": options.arrivals,
        "frozen": options.frozen,
        "late_joins": options.late_joins,
        "running_load": options.running_load,
        "shortcuts": options.shortcuts,
        "attached": options.attached,
        "offers": {f"{x:g}": load for x, load in options.offers},
        "load": options.load,
        "profiles": options.profiles,
        "profile_cores": options.profile_cores,
        "servers": options.servers,
        "trace": options.trace,
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
