"""The numbers in long form: a line for every number that was measured, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from unrack import Estimate
from unrack_papers.measured import Measured

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
