"""The script that checks asks at submission, with a site's settings in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from unrack.errors import InputError
from unrack.live.asks.amounts import MOST_PRIORITY
from unrack.live.asks.asks import Askable
from unrack.live.printable import printable

_SETTINGS = re.compile(r"-- Settings\..*?-- End of settings\.\n", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
MOST_USER_ID = 2**32 - 1


def script_text(
    partitions: Sequence[str],
    askable: Askable | None = None,
    operators: Iterable[int] = (0,),
    priority_most: int = 0,
    wake_file: str | Path = "",
) -> str:
    """The text of ``job_submit.lua`` for a site.

    Parameters
    ----------
    partitions
        That unrack schedules.
    askable
        What jobs may ask for; ``None``: anything that looks like it is let through, and refused by unrack later.
    operators
        User ids that may release held jobs: root, and the account that unrack runs as.
    priority_most
        The highest priority that users may ask for.
    wake_file
        An existing file, written to when a job comes; empty: none.

    Raises
    ------
    InputError
        A name or a path could not stand in the script.
    """
    for partition in partitions:
        if _PLAIN.fullmatch(partition) is None:
            raise InputError("partitions", f"'{printable(partition)}'", "names of letters, digits and any of _ . + -")
    users = sorted(set(operators))
    if not users or not all(0 <= user <= MOST_USER_ID for user in users):
        raise InputError("operators", printable(repr(users)), f"user ids from 0 to {MOST_USER_ID}")
    if not -MOST_PRIORITY <= priority_most <= MOST_PRIORITY:
        raise InputError("priority_most", str(priority_most), f"a number from -{MOST_PRIORITY} to {MOST_PRIORITY}")
    path = str(wake_file)
    if not path.isprintable() or len(path) > 4000 or (path and not path.startswith("/")):
        raise InputError("wake_file", f"'{printable(path)}'", "an absolute path, without control characters")
    quantities = sorted({".".join(key) for key in askable.quantities.values()}) if askable is not None else []
    settings = (
        "-- Settings, as of a site file.\n"
        f"local PARTITIONS = {_list(partitions)}\n"
        f"local OPERATORS = {{ {', '.join(map(str, users))} }}\n"
        f"local QUANTITIES = {_list(quantities)}\n"
        f"local PRIORITY_MOST = {priority_most}\n"
        f"local WAKE_FILE = {_quoted(path)}\n"
        "-- End of settings.\n"
    )
    shipped = (files("unrack.live.slurm") / "scripts" / "job_submit.lua").read_text(encoding="utf-8")
    return _SETTINGS.sub(lambda _: settings, shipped, count=1)


def _list(words: Iterable[str]) -> str:
    return "{ " + ", ".join(map(_quoted, words)) + " }"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
