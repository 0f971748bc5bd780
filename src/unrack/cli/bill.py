"""``unrack cluster bill``: what a cluster costs, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def bill(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="A cluster file, or the name of a preset.")],
    prices: Annotated[
        str | None,
        typer.Option("--prices", metavar="NAME|FILE.toml", help="In place of the cluster's own; see unrack prices."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the bill as JSON.")] = False,
) -> None:
    """Print what a cluster costs: to buy, to keep and to power, over the years that it is kept."""
    from unrack.cluster.presets import PRESETS
    from unrack.cluster.prices.bill import bill_of
    from unrack.cluster.prices.prices import EXAMPLE, make_prices
    from unrack.cluster.spec import Cluster
    from unrack.plan.settings import read_prices

    made = Cluster.preset(cluster) if cluster in PRESETS and not Path(cluster).exists() else Cluster.load(cluster)
    if prices is not None:
        made = made.priced(read_prices(prices), "--prices")
    found = bill_of(made, made.prices or make_prices(EXAMPLE))
    if as_json:
        typer.echo(json.dumps(found.record()))
        return
    from rich.console import Console
    from rich.table import Table

    money = found.prices.currency
    table = Table(title=f"{made.name}, over {found.prices.years:g} years", title_justify="left", show_footer=True)
    table.add_column("what", "in all")
    for heading in ("amount", f"to buy each, {money}", f"an hour each, {money}", "W each"):
        table.add_column(heading, justify="right")
    table.add_column(f"in all, {money}", f"{found.total:,.0f}", justify="right")
    for item in found.items:
        price = item.price
        numbers = (f"{item.amount:,.10g}", f"{price.capex:,.10g}", f"{price.per_hour:g}", f"{price.watts:g}")
        table.add_row(item.what, *numbers, f"{item.total:,.0f}")
    Console().print(table)
    typer.echo(f"{found.capex:,.0f} {money} to buy, {found.per_hour:,.4g} an hour, {found.watts:,.0f} W")
    if found.unpriced:
        typer.echo(f"without a price, counted as nothing: {', '.join(found.unpriced)}")
    if found.prices.source:
        typer.echo(f"prices: {found.prices.source}")
