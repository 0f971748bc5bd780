"""What jobs say that a site cannot mean: words of which it knows not a single one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unrack.resources.site.features import CONTIGUOUS, features_in
from unrack.resources.site.installed import Site
from unrack.resources.site.wheres import Said, listed

MOST = 8
"""So many names are told at most."""
ALWAYS = ("reservation", "features")
"""What a site that has none of refuses, too."""


def said_in_vain(site: Site, said: Said) -> tuple[str, int, str] | None:
    """What all jobs that say it say in vain: a field of ``said``, the first such job, what was wanted; or nothing.

    A job that names what others do not is rejected by itself: logs of years name what is no more. Where all do, a file
    or a column is wrong.
    """
    file, queues = site.file, {name for one in site.file.queues for name in (one.name, *one.also)}
    named: dict[str, Iterable[str]] = {
        "partition": site.partitions, "qos": [one.name for one in file.qos], "features": site.features,
        "account": [one.name for one in file.accounts], "reservation": [one.name for one in file.reservations],
        "queue": queues | {name.rpartition("/")[2] for name in queues}, "nodes": [], "without": [],
    }  # fmt: skip
    parts: dict[str, Callable[[str], Iterable[str]]] = {
        "partition": lambda text: map(str.strip, text.split(",")), "features": features_in,
    }  # fmt: skip
    for what, names in named.items():
        there, texts = sorted(set(names)), list(dict.fromkeys(filter(None, getattr(said, what))))
        if what in ("nodes", "without"):  # a list that cannot be read is a fault of its job
            known, there = (any(listed(text, site.cluster_nodes)[::2]) for text in texts), ["the nodes of the cluster"]
        else:
            every = {*there, CONTIGUOUS}
            known = (not every.isdisjoint(parts.get(what, _one)(text)) for text in texts)
        if texts and (there or what in ALWAYS) and not any(known):
            some = f"some of {', '.join(there[:MOST])}{' …' if len(there) > MOST else ''}"
            none = f"none: the site has no {what.removesuffix('s')}"
            return what, getattr(said, what).index(texts[0]), some if there else none
    return None


def _one(text: str) -> Iterable[str]:
    return [text]
