"""What one job asks for that its orchestrator does not know, read from a text that its user wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, nearest
from unrack.live.asks.amounts import MOST_PRIORITY, SIZE, after_us, amount, form_of, name, priority
from unrack.live.asks.words import MOST_WORD, words_of
from unrack.live.printable import printable

_ASK = re.compile(r"([A-Za-z][\w-]*(?:\.[A-Za-z]\w*)?)=(.*)", re.ASCII | re.DOTALL)
_OWN = ("memory", "deadline", "priority", "app")
_SHAPE = "KEY=VALUE without blanks, such as nvme.capacity=100GB"


class AskError(InputError):
    """Something that a job asks for in its comment and cannot be understood; the job is refused with this."""


@dataclass(frozen=True, slots=True)
class Asks:
    """What a job asks for beyond what its orchestrator knows."""

    # of pools and resources, as in traces: (kind, quantity) → amount, per task where traces mean it per task
    devices: Mapping[tuple[str, str], int] = field(default_factory=dict)
    memory_mb: int | None = None  # of each task, and it may be lent; ``None``: what the orchestrator says
    deadline_us: int | None = None  # when it should be done, after its submission; ``None``: not said
    priority: int | None = None  # larger goes first, under policies that look at it; ``None``: not said
    app: str = ""  # which application it is; ``""``: not said

    def over(self, other: Asks) -> Asks:
        """These asks, and those of ``other`` where these say nothing."""
        return Asks(
            {**other.devices, **self.devices},
            other.memory_mb if self.memory_mb is None else self.memory_mb,
            other.deadline_us if self.deadline_us is None else self.deadline_us,
            other.priority if self.priority is None else self.priority,
            self.app or other.app,
        )


@dataclass(frozen=True)
class Askable:
    """What jobs may ask of a cluster: of its pools and of resources that are counted."""

    # How it is written → (kind, quantity). ``nvme.capacity`` is short for ``nvme.capacity_mb``.
    quantities: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, cluster: Cluster) -> Askable:
        """What there is to ask of a cluster."""
        devices = zip(cluster.devices.kinds, cluster.devices.quantities, strict=True)
        keys = [(kind, quantity) for kind, quantities in devices for quantity in quantities]
        keys += [key for key in cluster.places.quantities if key not in keys]
        exact = {".".join(key): key for key in keys}
        short: dict[str, list[tuple[str, str]]] = {}
        for kind, quantity in keys:
            stem = re.sub("_mb(_s)?$", "", quantity)
            if stem != quantity and f"{kind}.{stem}" not in exact:
                short.setdefault(f"{kind}.{stem}", []).append((kind, quantity))
        return cls({**exact, **{written: found[0] for written, found in short.items() if len(found) == 1}})

    def asks(self, text: str, where: str = "comment", priority_most: int = MOST_PRIORITY) -> Asks:
        """What a comment asks for; see :func:`asks_of`."""
        found: dict[str, Any] = {}
        devices: dict[tuple[str, str], int] = {}
        for word in words_of(text):
            split = _ASK.fullmatch(word) if len(word) <= MOST_WORD else None
            if split is None:
                raise AskError(where, f"'{printable(word)}'", _SHAPE)
            key, value = split.groups()
            target = self.quantities.get(key)
            if target is None and key not in _OWN:
                raise AskError(where, f"'{printable(key)}'", nearest(key, (*_OWN, *self.quantities))[:400])
            if target in devices or key in found:
                raise AskError(f"{where}, {key}", "it twice", "it once")
            try:
                if target is not None:
                    devices[target] = amount(form_of(target[1]), value)
                else:
                    found[key] = _own(key, value, priority_most)
            except ValueError as error:
                raise AskError(f"{where}, {key}", f"'{printable(value)}'", str(error)) from None
        return Asks(devices, found.get("memory"), found.get("deadline"), found.get("priority"), found.get("app", ""))


def asks_of(text: str, cluster: Cluster, where: str = "comment", priority_most: int = MOST_PRIORITY) -> Asks:
    """What a comment asks for, in time that grows with its length alone.

    Parameters
    ----------
    text
        Any text. What follows ``unrack:`` up to the end of the line or a semicolon is ``KEY=VALUE`` words; all else is
        free.
    cluster
        With the pools and resources that may be asked for.
    where
        What errors call the text.
    priority_most
        The highest priority that it may ask for.

    Raises
    ------
    AskError
        A key is unknown or stands twice, or a value is not of its kind.

    Examples
    --------
    >>> cluster = Cluster.preset("nvme-pool")
    >>> asks_of("2nd try; unrack: nvme.capacity=100GB nvme.bandwidth=1800MB/s deadline=2h app=amber", cluster)
    Asks(devices={('nvme', 'capacity_mb'): 102400, ('nvme', 'bandwidth_mb_s'): 1800}, memory_mb=None, \
deadline_us=7200000000, priority=None, app='amber')
    """
    return Askable.of(cluster).asks(text, where, priority_most)


def _own(key: str, value: str, priority_most: int) -> int | str:
    if key == "memory":
        found = amount(SIZE, value)
        if not found:
            raise ValueError("1MB or more")
        return found
    if key == "deadline":
        return after_us(value)
    return priority(value, priority_most) if key == "priority" else name(value)
