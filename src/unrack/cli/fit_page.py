"""What ``unrack trace fit`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from unrack.facts import counted
from unrack.units import seconds_text

if TYPE_CHECKING:
    from unrack.workload.generate.batch.agreement import Marginal
    from unrack.workload.generate.batch.fit import Fit
    from unrack.workload.generate.batch.model import BatchModel

_QUANTILES = (0.25, 0.5, 0.75, 0.95)


def record(fit: Fit) -> dict[str, Any]:
    """The fit, ready for JSON: jobs, parameters, distance of each property, correlations."""
    return {
        "jobs": fit.jobs,
        "parameters": fit.model.model_dump(mode="json", exclude_none=True),
        "distance": {marginal.name: round(marginal.distance, 6) for marginal in fit.marginals},
        "correlation": {name: {"log": log, "model": drawn} for name, (log, drawn) in fit.together.items()},
    }


def page(fit: Fit) -> Iterator[RenderableType]:
    """The parts of the page: parameters, then how the model agrees with the log."""
    yield _parameters(fit)
    yield _agreement(fit)
    yield _together(fit)


def _parameters(fit: Fit) -> Table:
    model = fit.model
    table = Table(title="Batch model", title_style="bold", title_justify="left", show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, words in _rows(model, fit.jobs):
        table.add_row(name, escape(words))
    return table


def _rows(model: BatchModel, jobs: int) -> Iterator[tuple[str, str]]:
    cycle, sizes = model.arrivals, model.sizes
    hour = max(range(24), key=cycle.hour.__getitem__)
    yield "fitted to", f"{model.source} ({counted(jobs, 'job')})"
    yield (
        "arrivals",
        (
            f"{cycle.jobs_per_day:,.1f} a day, most from {hour} h to {hour + 1} h ({cycle.hour[hour]:.2f} × the mean); "
            f"weekday over weekend {sum(cycle.weekday[:5]) / 5 / max(sum(cycle.weekday[5:]) / 2, 1e-9):.2f}; "
            f"gap shape {cycle.gap_shape:g} (1 = Poisson)"
        ),
    )
    yield (
        "sizes",
        (
            f"on {sizes.nodes:,} nodes: {sizes.serial_share:.1%} of one node, {sizes.power_share:.1%} of the others a "
            f"power of two"
        ),
    )
    for name, ending in (("completed", model.completed), ("failed", model.failed), ("cancelled", model.cancelled)):
        if ending is not None:
            middle = ending.accuracy[len(ending.accuracy) // 2]
            words = (
                f"{ending.share:.1%}; {ending.at_limit:.1%} of them ran to the limit, {ending.no_run:.1%} not at all"
            )
            yield name, f"{words}, half of the others up to {middle:.3g} × the request"
    yield "never ran", f"{model.never_ran:.1%} of all submitted"


def _agreement(fit: Fit) -> Table:
    from numpy import quantile

    table = Table(title="Log and model", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    table.add_column("of")
    for part in _QUANTILES:
        table.add_column(f"p{part * 100:g}", justify="right")
    table.add_column("mean", justify="right")
    table.add_column("KS distance", justify="right")
    for marginal in fit.marginals:
        for who, values in (("log", marginal.log), ("model", marginal.drawn)):
            parts = quantile(values, _QUANTILES, method="inverted_cdf").tolist()
            cells = [*(_cell(marginal, part) for part in parts), _cell(marginal, float(values.mean()))]
            last = f"{marginal.distance:.3f}" if who == "model" else ""
            table.add_row(marginal.name if who == "log" else "", who, *cells, last)
    return table


def _together(fit: Fit) -> Table:
    table = Table(title="Correlation of ranks", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    table.add_column("log", justify="right")
    table.add_column("model", justify="right")
    for name, (log, drawn) in fit.together.items():
        table.add_row(name, f"{log:+.2f}", f"{drawn:+.2f}")
    return table


def _cell(marginal: Marginal, value: float) -> str:
    return seconds_text(value) if marginal.unit == "s" else f"{value:,.4g}"
