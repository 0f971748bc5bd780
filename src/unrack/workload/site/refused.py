"""What jobs say that a site cannot mean: words of which it knows not a single one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from unrack.resources.site.features import features_in
from unrack.resources.site.installed import Site
from unrack.resources.site.wheres import Said, listed

MOST = 8
"""So many names are told at most."""


class Odd(NamedTuple):
    """The first job that says something of which a site knows nothing, though all others that say any do, too."""

    what: str  # a field of ``Said``
    job: int
    want: str


def first_odd(site: Site, said: Said) -> Odd | None:
    """What all jobs that say it say in vain; ``None``: nothing.

    A job that names what others do not is rejected by itself: logs of years name what is no more. Where all do, a file
    or a column is wrong.
    """
    file, nodes = site.file, len(site.computing)
    queues = {name for one in file.queues for name in (one.name, *one.also)}
    known: dict[str, tuple[Iterable[str], Callable[[str], Iterable[str]]]] = {
        "partition": (site.partitions, lambda text: map(str.strip, text.split(","))),
        "qos": ((one.name for one in file.qos), lambda text: [text]),
        "account": ((one.name for one in file.accounts), lambda text: [text]),
        "queue": (queues | {name.rpartition("/")[2] for name in queues}, lambda text: [text]),
        "reservation": ((one.name for one in file.reservations), lambda text: [text]),
        "features": (site.features, features_in),
    }
    for what, (names, parts) in known.items():
        there = sorted(set(names))
        texts = list(filter(None, getattr(said, what)))
        if not texts or (not there and what not in ("reservation", "features")):
            continue
        if not any(set(parts(text)) & set(there) for text in set(texts)):
            some = ", ".join(there[:MOST]) + (" …" if len(there) > MOST else "")
            want = f"some of {some}" if there else f"none: the site has no {what.removesuffix('s')}"
            return Odd(what, getattr(said, what).index(texts[0]), want)
    for what in ("nodes", "without"):
        texts = list(filter(None, getattr(said, what)))
        found = (listed(text, site.cluster_nodes) for text in dict.fromkeys(texts))
        if texts and not any(there or wrong for there, _, wrong in found):  # one that cannot be read is its job's fault
            return Odd(what, getattr(said, what).index(texts[0]), f"some of the {nodes} nodes of the cluster")
    return None
