"""The systemd unit of a live scheduler: started, watched and confined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from unrack.errors import InputError
from unrack.live.printable import printable

WATCHDOG_S = 60
_PATH = re.compile(r"/[\w./+@:,=-]{1,3999}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")


def unit_text(
    site_path: str | Path,
    executable: str | Path,
    user: str,
    state: str | Path = "/var/lib/unrack",
    writable: Sequence[str | Path] = (),
) -> str:
    """The text of ``unrack.service``.

    Parameters
    ----------
    site_path
        The site file; absolute.
    executable
        ``unrack``, as an absolute path.
    user
        The account that it runs as; a Slurm operator.
    state
        The state folder of the site file; it is made for the account if it is in ``/var/lib``.
    writable
        Further folders that it may write to, such as one of a fabric.

    Raises
    ------
    InputError
        A path is not absolute, or a name could not stand in a unit.
    """
    paths = {"site file": site_path, "executable": executable, "state": state}
    for what, path in [*paths.items(), *(("writable", path) for path in writable)]:
        if _PATH.fullmatch(str(path)) is None or ".." in Path(path).parts:
            want = "an absolute path without .., of letters, digits and any of / _ . + @ : , = -"
            raise InputError(what, f"'{printable(str(path))}'", want)
    if _USER.fullmatch(user) is None:
        raise InputError("user", f"'{printable(user)}'", "the name of an account, such as unrack")
    inside = Path(state).parent == Path("/var/lib")
    needed = [*([] if inside else [state]), *writable]
    own = [f"StateDirectory={Path(state).name}", "StateDirectoryMode=0750"] if inside else []
    if needed:
        own.append("ReadWritePaths=" + " ".join(map(str, needed)))
    home = any(Path(path).parts[1] in ("home", "root") for path in (site_path, executable, state, *writable))
    text = (files("unrack.live.watch") / "unrack.service.txt").read_text(encoding="utf-8")
    values = {
        "@SITE@": str(site_path),
        "@EXECUTABLE@": str(executable),
        "@USER@": user,
        "@OWN@": "\n".join(own),
        "@HOME@": "read-only" if home else "yes",
        "@WATCHDOG@": str(WATCHDOG_S),
    }
    return re.sub("|".join(values), lambda found: values[found[0]], text)
