"""``unrack init policy | study``: files to begin with, which run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.listing import show
from unrack.errors import check_choice

app = typer.Typer(invoke_without_command=True, help="Write a policy or a study to begin with, or copy an example.")

Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write to (default: this one).")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")]


@app.callback()
def begin(
    context: typer.Context,
    listed: Annotated[bool, typer.Option("--list", help="List the examples that can be copied.")] = False,
) -> None:
    """Write a policy or a study to begin with, which runs as it is; or list the examples that can be copied."""
    if listed:
        from unrack.study.starters.files import examples

        found = examples()
        tail = ("", "Copy one, with the files that it needs: unrack init study --example NAME")
        show({name: {"summary": example.summary} for name, example in found.items()}, False, tail)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("policy")
def policy(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The name of the policy; it is written to NAME.py.")] = (
        "MyPolicy"
    ),
    kind: Annotated[str, typer.Option(help="What it decides: order, placement or discipline (all).")] = "order",
    out: Out = Path(),
    force: Force = False,
) -> None:
    """Write a policy of your own to begin with, which runs as it is, and a test of it."""
    from unrack.study.starters.files import StarterKind, policy_files, write_files

    check_choice("--kind", kind, StarterKind)
    first, test = write_files(policy_files(name, StarterKind(kind)), out, force)
    typer.echo(f"wrote {first} and {test}")
    typer.echo(f"run it beside others:  unrack run STUDY.toml --policy {first}:{first.stem}")
    typer.echo(f"check its rules:       python {test}")


@app.command("study")
def study(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The study is NAME.toml (default: study, or the example).")
    ] = None,
    example: Annotated[
        str | None, typer.Option(metavar="NAME", help="Copy this example, with the files that it needs.")
    ] = None,
    out: Out = Path(),
    force: Force = False,
) -> None:
    """Write a study to begin with, which runs as it is, or copy an example."""
    from unrack.study.starters.files import example_files, study_file, write_files

    if example is None:
        texts = study_file(name or "study")
        command = f"unrack run {next(iter(texts))}"
    else:
        texts, command = example_files(example, name)
    paths = write_files(texts, out, force)
    typer.echo(f"wrote {', '.join(map(str, paths))}")
    inside = "" if out == Path() else f"cd {out} && "
    typer.echo(f"run it:  {inside}{command}")
