"""Commands of other distributions: entry points of the group ``unrack.commands``, each ``NAME = "module:function"``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer

from unrack.plugins.table import ELSEWHERE, PAPERS, Extension, installed

ANYTHING = ("allow_extra_args", "ignore_unknown_options")


def plug(app: typer.Typer) -> None:
    """Add the commands that are installed, by name, and a hint in place of a known one that is not."""
    found = installed().get("commands", {})
    own = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    for name in sorted(found.keys() - own):
        app.command(name)(_loaded(name, found[name]))
    for name in sorted(set(ELSEWHERE["commands"]) - found.keys()):
        missing = _failing(name, "not installed", PAPERS)
        app.command(name, hidden=True, context_settings=dict.fromkeys(ANYTHING, True))(missing)


def _loaded(name: str, several: Sequence[Extension]) -> Callable[..., Any]:
    """Return the function, or, where it cannot be loaded, one that says why: other commands are to work."""
    if len(several) > 1:
        homes = " and ".join(f"{one.home} ({one.at})" for one in several)
        return _failing(name, f"a command of {homes}", "one of them: names differ")
    try:
        found: Callable[..., Any] = several[0].load()
        return found
    except Exception as error:
        got = f"{several[0].home}, entry point {several[0].at}: {type(error).__name__}: {error}"
        return _failing(name, got, "one that loads")


def _failing(name: str, got: str, wanted: str) -> Callable[[], None]:
    def refuse() -> None:
        from unrack.errors import InputError

        raise InputError(f"unrack {name}", got, wanted)

    return refuse
