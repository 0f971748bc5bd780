"""Saying that kernels are compiled, so that nobody takes a first use for the usual speed."""

from __future__ import annotations

import sys

import typer

WORDS = "compiling kernels for their first use: it takes up to a minute, once"


def words() -> str:
    """What is said when kernels are compiled, and where their machine code goes if not to a usual place."""
    from unrack.kernels.cache import note

    return f"{WORDS}\n{note()}".rstrip()


def say_when_compiling() -> None:
    """Print a line on the error stream, if that is a terminal, when this process first compiles a kernel."""
    from unrack.jit import on_first_compile

    if sys.stderr.isatty():
        on_first_compile(lambda: typer.echo(words(), err=True))
