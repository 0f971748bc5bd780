"""``unrack profile check``: mixes of profiled applications, simulated and run for real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import Json, OutOption, out_folder
from unrack.cli.printed import grid, print_json, print_page

if TYPE_CHECKING:
    from rich.console import RenderableType


_OFF = {
    "median": "at the median",
    "mean": "in the mean",
    "most": "at most",
    "ends": "at the median for when a mix ends",
}


def check(
    mixes: Annotated[Path, typer.Argument(metavar="MIXES.toml", help="Which profiles, and which jobs run together.")],
    out: OutOption = None,
    as_json: Json = False,
) -> None:
    """Simulate mixes of profiled applications, run them for real on this machine, and compare."""
    from unrack.cli.profile.run import ends_in_order
    from unrack.profile.check.check import check_mixes, summary_of
    from unrack.profile.check.mixes import read_mixes
    from unrack.profile.machine.machine import Machine

    ends_in_order()
    asked = read_mixes(mixes)
    folder = out or out_folder(f"check-{mixes.stem}", "check")
    say = (lambda words: typer.echo(words, err=True)) if not as_json else (lambda _: None)
    outcomes = check_mixes(asked, folder, Machine(), say)
    found = summary_of(outcomes)
    if as_json:
        print_json(found)
        return
    print_page(_page(found))
    typer.echo(str(folder))


def _page(found: dict[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    from unrack.profile.check.predicted import MODELS

    columns = ["begins", "alone", "measured", "predicted", "off"]
    table = grid("predicted against measured, seconds", ["mix", "job"], columns)
    for one in found["jobs"]:
        numbers = [f"{one[name]:.2f}" for name in ("at_s", "alone_s", "measured_s", "predicted_s")]
        table.add_row(one["mix"], one["job"], *numbers, f"{one['error']:+.1%}")
    yield table
    for model, numbers in found["rules"].items():
        off = [f"{numbers[name]:.1%} {words}" for name, words in _OFF.items()]
        offered = " (offered)" if model == found["offered"] else ""
        yield Text(f"{model} ({MODELS[model]}): off by {', '.join(off)}{offered}")
