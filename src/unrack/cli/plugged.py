"""Commands of other distributions: entry points of the group ``unrack.commands``, each ``NAME = "module:function"``."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import typer

GROUP = "unrack.commands"
ELSEWHERE = {"reproduce": "pip install 'unrack[papers]'"}
"""Commands that the documentation speaks of and another distribution has → how to install it."""


def plug(app: typer.Typer) -> None:
    """Add the commands that are installed, by name, and a hint in place of a known one that is not."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    own = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    for name in sorted({*found, *ELSEWHERE} - own):
        if name in found:
            app.command(name)(_loaded(found[name]))
        else:
            app.command(name, hidden=True, context_settings=dict.fromkeys(ANYTHING, True))(_missing(name))


ANYTHING = ("allow_extra_args", "ignore_unknown_options")


def _loaded(entry: EntryPoint):  # type: ignore[no-untyped-def] # Typer reads the signature of the function itself
    """Return the function, or, where it cannot be loaded, one that says why: other commands are to work."""
    try:
        return entry.load()
    except Exception as error:
        return _failing(entry.name, f"entry point {entry.value}: {type(error).__name__}: {error}", "one that loads")


def _missing(name: str):  # type: ignore[no-untyped-def]
    return _failing(name, "not installed", ELSEWHERE[name])


def _failing(name: str, got: str, wanted: str):  # type: ignore[no-untyped-def]
    def refuse() -> None:
        from unrack.errors import InputError

        raise InputError(f"unrack {name}", got, wanted)

    return refuse
