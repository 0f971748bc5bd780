"""``unrack profile probe``: what can be measured on this machine, and why the rest cannot."""

from __future__ import annotations

from unrack.cli.options import Json, grid, print_json, print_page


def probe(as_json: Json = False) -> None:
    """Tell what can be measured on this machine; each way is tried, and leaves nothing behind."""
    from unrack.profile.axes.table import KINDS
    from unrack.profile.axes.table import probe as probed
    from unrack.profile.machine.journal import Journal
    from unrack.profile.machine.machine import Machine

    with Journal() as journal:
        findings = probed(Machine(), journal)
    if as_json:
        print_json([{**one._asdict(), "summary": KINDS[one.axis].summary} for one in findings])
        return
    table = grid(None, ["axis", "by"], [])
    table.add_column("here", overflow="fold")
    for one in findings:
        table.add_row(one.axis, one.actuator, one.lacks or "yes")
    print_page([table])
