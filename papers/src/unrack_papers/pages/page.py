"""What a reproduction leaves behind: a page in Markdown with its figure, and the numbers as CSV.

The numbers in long form: a line for every number that was measured, for spreadsheets and scripts.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unrack import Estimate
from unrack.errors import InputError
from unrack.extras import extra, has_pictures
from unrack.study import RunTimes
from unrack_papers.claim import Claim, Finding
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import OURS_ONLY, as_markdown, sheets_of
from unrack_papers.verdict import SIGNS, Verdict
from unrack_papers.within import sign_of

COLUMNS = {
    "group": "the panel: scenario, mix or layout",
    "x": "the place on the axis: load, deadline factor, devices or overhead (%)",
    "row": "policy and layout, as the paper names them",
    "in_paper": "yes or no: no are rows of our own",
    "world": "study: jobs run as the models and contention of the reproduction say; base: without them",
    "metric": "the quantity, as the paper's column names it",
    "unit": "of the values",
    "paper": "the value printed; empty where there is only a picture",
    "ours": "mean over the seeds",
    "low": "of the 95 % confidence interval of the mean; empty with one seed, and where nothing is known to bound it",
    "high": "of the same",
    "least": "of the seeds",
    "most": "of the seeds",
    "difference": "ours less the paper's",
    "tolerance": "up to which difference we agree with the paper's value",
    "verdict": "agrees, differs or cannot be judged; empty without a value of the paper",
    "seeds": "how many gave a value",
}
"""Column of the CSV file → what it holds."""


def long_rows(measured: Measured) -> list[dict[str, Any]]:
    """A row of :data:`COLUMNS` for every number; ``None`` where there is none."""
    rows_by_name = {row.name: row for group in measured.groups for row in measured.rows(group)}
    worlds = {name: str(row.world) for name, row in rows_by_name.items()}
    rows = []
    for found in measured.cells():
        group, x, row = found.place
        low, high = found.interval or (None, None)
        ours: Estimate | None = found.ours
        values = (
            group, x, row, "yes" if rows_by_name[row].printed else "no", worlds[row], found.quantity.label,
            found.quantity.unit, found.paper,
            None if ours is None else _exact(ours.mean), _exact(low), _exact(high), _exact(found.least),
            _exact(found.most), _exact(found.difference), _exact(found.tolerance), found.verdict or "",
            0 if ours is None else ours.count,
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def _exact(value: float | None) -> float | None:
    """Ten significant digits: the last ones of a sum may differ between machines; ``None`` for what has no end."""
    return None if value is None or math.isinf(value) else float(f"{value:.10g}")


def as_csv(measured: Measured) -> str:
    """The text of the CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(long_rows(measured))
    return text.getvalue()


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
    if any(row.world != RunTimes.STUDY for group in measured.groups for row in measured.rows(group)):
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


def command(measured: Measured) -> str:
    """The command that makes these results again."""
    one, options, looks = measured.reproduction, measured.options, measured.looks
    if looks is None:
        return " ".join(["unrack reproduce", one.name, *options.flags(one.defaults)])
    flags = replace(options, seeds=looks.first).flags(one.defaults)
    return " ".join(["unrack reproduce", one.name, *flags, f"--until-decided {looks.most}"])


def how_judged(measured: Measured, findings: Judged) -> str:
    """What was done so that claims of many numbers, and many looks at them, are not judged wrongly more often."""
    words = (
        "A false verdict on a claim has a chance of 5 % at most: it agrees by the 95 % interval of every number, and "
    )
    words += "differs by the intervals of all its numbers together."
    if measured.looks is None:
        return "" if measured.reproduction.exact else words
    left = [finding for _, finding in findings if finding.verdict is Verdict.OPEN]
    looks, ran = measured.looks, measured.options.seeds
    after = ", ".join(str(seeds) for seeds in looks.seeds if seeds <= ran)
    words += (
        f" Claims were looked at after {after} seeds, until all were decided or {looks.most} seeds spent; each look "
    )
    words += (
        "has a part of the 5 % (a half, a sixth, a twelfth …), and a claim keeps its first verdict, with the numbers "
    )
    words += "that it was judged by. In tables, values of the paper are judged by the last look."
    return words + (f" With {2 * looks.seeds[-1]} seeds it would go on." if left and ran == looks.seeds[-1] else "")


def as_page(measured: Measured, findings: Judged, pictured: bool = True) -> str:
    """The page: setup, figure, claims, numbers and known differences."""
    one = measured.reproduction
    lines = [
        f"# {one.shows}: {one.summary}",
        f"*{one.paper}. Written by `{command(measured)}`: {measured.options.words(one.takes)}.*",
        one.setup,
        *(f"**{warning}**" for warning in warnings_of(measured)),
        *([f"![{one.shows}]({stem(measured)}.svg)"] if pictured else []),
        "## Claims",
        f"{claims_found(findings)} {how_judged(measured, findings)}".rstrip(),
        "\n".join(_claim(measured, claim, finding) for claim, finding in findings),
        "## Numbers",
        *([cells_found(measured)] if cells_found(measured) else []),
    ]
    for sheet in sheets_of(measured):
        lines += [f"Each cell: {sheet.title}. {legend(measured)}".rstrip(), as_markdown(sheet)]
    lines += [f"All numbers: [{stem(measured)}.csv]({stem(measured)}.csv).", "## Where our setup may differ"]
    lines += ["\n".join(f"* {note}" for note in one.notes)]
    return "\n\n".join(lines) + "\n"


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
    words = [finding.why] if finding.why else []
    words += [f"{finding.seeds} seeds"] if finding.looked else []
    return f"{finding.verdict} ({', '.join(words)})" if words else str(finding.verdict)


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
    one, options = measured.reproduction, measured.options
    return {
        "name": one.name,
        "shows": one.shows,
        "seeds": options.seeds,
        "looks": None if measured.looks is None else [one for one in measured.looks.seeds if one <= options.seeds],
        **options.table(one.takes - {"seeds"}),
        "claims": [_plain(measured, claim, finding) for claim, finding in findings],
        "claims_found": counted([finding.verdict for _, finding in findings]),
        "values_found": counted([cell.verdict for cell in measured.cells()]),
        "rows": long_rows(measured),
        "warnings": warnings_of(measured),
    }


def _plain(measured: Measured, claim: Claim, finding: Finding) -> dict[str, Any]:
    checks = [
        {"subject": one.subject, "where": one.where, "value": None if one.value is None else one.value.mean,
         "half": None if one.value is None else one.value.half, "unit": one.unit, "verdict": str(one.verdict),
         "why": one.why, "wanted": [end if math.isfinite(end) else None for end in (one.low, one.high)],
         "known": "" if one.value is None else sign_of(one.value).strip(), "of": str(one.of),
         "numbers": len(one.numbers)}
        for one in finding.checks
    ]  # fmt: skip
    return {"claim": claim.sentence, "source": claim.source, "verdict": str(finding.verdict), "why": finding.why,
            "seeds": finding.seeds,
            "by_the_papers_numbers": of_its_own(measured, claim), "checks": checks}  # fmt: skip


def counted(verdicts: Sequence[Verdict | None]) -> dict[str, int]:
    """How many there are of each verdict."""
    return {str(verdict): sum(one is verdict for one in verdicts) for verdict in Verdict}


def write(measured: Measured, findings: Judged, directory: Path) -> tuple[Path, ...]:
    """Write ``NAME.md``, ``.csv``, ``.svg`` and ``.png``, NAME as :func:`stem` has it; returns their paths.

    Without vl-convert there are no pictures, and the page shows none.

    Raises
    ------
    InputError
        The directory cannot be made or written to.
    """
    name = stem(measured)
    contents: dict[str, bytes] = {
        "md": as_page(measured, findings, has_pictures()).encode(),
        "csv": as_csv(measured).encode(),
    }
    if has_pictures():
        vl_convert = extra("vl_convert")
        spec = json.dumps(measured.reproduction.draw(measured))
        contents["svg"] = str(vl_convert.vegalite_to_svg(spec)).encode()
        contents["png"] = bytes(vl_convert.vegalite_to_png(spec, scale=2))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for ending, content in contents.items():
            (directory / f"{name}.{ending}").write_bytes(content)
    except OSError as error:
        got = error.strerror or str(error)
        raise InputError(str(directory), got, "a directory that can be made and written to") from None
    return tuple(directory / f"{name}.{ending}" for ending in contents)
