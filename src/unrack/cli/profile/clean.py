"""``unrack profile clean``: undo what a killed run left on the machine."""

from __future__ import annotations

import typer


def clean() -> None:
    """Undo what runs that were killed left behind: groups, devices, mounts, namespaces, processes."""
    from unrack.errors import RunError
    from unrack.facts import counted
    from unrack.profile.machine.journal import clean as cleaned

    done, left = cleaned()
    if left:
        raise RunError(f"could not undo {'; '.join(left)}")
    typer.echo(f"cleaned up after {counted(done, 'run')}" if done else "nothing was left behind")
