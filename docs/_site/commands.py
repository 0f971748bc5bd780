"""The page of commands, from their own help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

KINDS: dict[object, str] = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
"""Stands for a value where the option does not say."""


def commands_page() -> str:
    """Every command with its arguments and options, as Markdown."""
    from unrack.cli.main import app

    group = typer.main.get_command(app)
    head = "# Commands\n\nEvery command of `unrack`, as its `--help` has it.\n"
    return "\n".join([head, *_commands(group, "unrack")])


def _commands(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        full = f"{path} {name}"
        yield f"## {full}\n\n{_plain(command.help or '')}\n"
        if hasattr(command, "commands"):
            yield from (text.replace("## ", "### ", 1) for text in _commands(command, full))
        else:
            yield _usage(command, full)
            yield _table(command)


def _plain(text: str) -> str:
    return text.partition("\f")[0].strip()


def _usage(command: Any, path: str) -> str:
    arguments = [_metavar(one) for one in command.params if one.param_type_name == "argument"]
    return f"```\n{' '.join([path, '[OPTIONS]', *arguments])}\n```\n"


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    name += "…" if argument.nargs == -1 else ""
    return name if argument.required else f"[{name.strip('[]')}]"


def _kind(annotation: Any) -> str:
    return KINDS[annotation] if annotation in KINDS else "|".join(annotation)  # an enumeration of words


def _table(command: Any) -> str:
    rows = ["| | | default |", "|---|---|---|"]
    for one in command.params:
        if getattr(one, "hidden", False):
            continue
        is_option = one.param_type_name == "option"
        value = "" if not is_option or one.is_flag else f" {one.metavar or _kind(one.type_descriptor.annotation)}"
        name = ", ".join(f"`{opt}{value if opt == one.opts[0] else ''}`" for opt in one.opts) if is_option else ""
        name = name.replace("|", "\\|")
        default = one.default if isinstance(one.default, str | int | float) and one.default is not False else ""
        words = (getattr(one, "help", None) or "").replace("|", "\\|").replace("\n", " ")
        rows.append(f"| {name or f'`{_metavar(one)}`'} | {words} | {default} |")
    return "\n".join(rows) + "\n" if len(rows) > 2 else ""
