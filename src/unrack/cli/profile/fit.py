"""``unrack profile fit``: what the runs of profiles say, level by level, and which form of curve they support."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.options import Json, grid, print_json, print_page

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unrack.profile.profile import Profile

Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that `unrack profile run` wrote.")]


def fit(directories: Folders, as_json: Json = False) -> None:
    """Fit curves to runs, with intervals; writes fit.json and runs.parquet beside them."""
    from unrack.profile.profile import keep_fit, read_profile

    profiles = [read_profile(folder) for folder in directories]
    for folder, profile in zip(directories, profiles, strict=True):
        keep_fit(folder, profile)
    answer(profiles, as_json)


def answer(profiles: Sequence[Profile], as_json: bool) -> None:
    """Print what is fitted."""
    if as_json:
        print_json([profile.content for profile in profiles])
    else:
        print_page(part for profile in profiles for part in _page(profile))


def _page(profile: Profile) -> Iterator[RenderableType]:
    from rich.text import Text

    for axis in profile.content["axes"]:
        words = f"{profile.name}, {axis['axis']}: {axis['alone_s']:.4g} s alone, noise {axis['noise']:.1%}"
        table = grid(words, [axis["unit"] or "level"], ["speed", "from", "to", "runs", "missed"])
        for one in axis["levels"]:
            ends = [f"{one[name]:.3f}" for name in ("speed", "low", "high")]
            table.add_row(one["level"], *ends, str(one["runs"]), str(one["missed"]))
        yield table
        if axis.get("errors"):
            errors = ", ".join(f"{one['form']} {one['mean']:.2%}" for one in axis["errors"])
            yield Text(f"left-out levels are predicted to within (mean) {errors}: {axis['offered']} is offered\n")
