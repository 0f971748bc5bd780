"""Which nodes are on: idle ones are switched off after a while, and on again when a job is placed on them.

Of idle nodes the first stay on, as many as are to: placements take the first that are free. A node is idle while no job
has a task, borrowed memory or a device there. Nothing happens at a time of its own: what was switched off since is
worked out when something changes, so that a run has no event more. Within one moment the order of changes does not
matter: a node that is idle for no time is on.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from unrack.resources.power.resource import Power

ON = -1


class Spell(NamedTuple):
    """A node draws ``more_mw`` more than idle from ``start_us`` until ``end_us``; ``off``: and is switched off."""

    node: int
    start_us: int
    end_us: int
    more_mw: int
    off: bool = False


class Switching:
    """The nodes of a run; all are on and idle at ``start_us``.

    ``spells``: what nodes drew while they were off or being switched, in no order.
    """

    def __init__(self, power: Power, start_us: int) -> None:
        file = power.file.switch_off
        assert file is not None
        self._file, self._power = file, power
        count = len(power.computing)
        self._held, self._down, self._ready_us = [0] * count, [False] * count, [start_us] * count
        self._due_us, self._off_us = [start_us + file.after] * count, [ON] * count
        self._idle: list[int] = power.computing.nonzero()[0].tolist()  # those that are on, ascending
        self._queue = [(start_us + file.after, node) for node in self._idle]  # when each may be switched off
        self._ripe = list[int]()  # those that may be by now, the last first, as numbers below 0
        heapify(self._queue)
        self._changed_us = start_us
        self._last: dict[int, range] = {}  # node → its spells from when it was last switched off until it was on again
        self.spells: list[Spell] = []

    def take(self, nodes: Iterable[int], now: int) -> int:
        """A job holds something on these nodes from now on; returns when all of them are ready, µs."""
        self._advance(now)
        ready_us = now
        for node in nodes:
            if self._off_us[node] != ON:
                first, begin_us = len(self.spells), self._note_off(node, now, whole=True)
                self._ready_us[node] = begin_us + self._file.boot
                self._spell(node, begin_us, self._ready_us[node], self._file.boot_watts)
                self._last[node] = range(first, len(self.spells))
            self._wake(node)
            self._held[node] += 1
            ready_us = max(ready_us, self._ready_us[node])
        return ready_us

    def give(self, nodes: Iterable[int], now: int) -> None:
        """A job holds nothing there any more."""
        self._advance(now)
        for node in nodes:
            self._held[node] -= 1
            if not self._held[node] and not self._down[node]:
                self._rest(node, max(now, self._ready_us[node]))

    def down(self, nodes: Iterable[int], now: int) -> None:
        """Nodes on which no job holds anything go down."""
        now = self._advance(now)
        for node in nodes:
            if self._off_us[node] != ON:
                self._note_off(node, now)
            elif self._ready_us[node] > now:
                for i in self._last[node]:
                    spell = self.spells[i]
                    self.spells[i] = spell._replace(end_us=min(spell.end_us, max(now, spell.start_us)))
            self._wake(node)
            self._down[node], self._ready_us[node] = True, now

    def up(self, nodes: Iterable[int], now: int) -> None:
        """They come back, switched on."""
        now = self._advance(now)
        for node in nodes:
            self._down[node] = False
            self._rest(node, now)

    def close(self, end_us: int) -> None:
        """The run is over."""
        self._advance(end_us)
        for node, off_us in enumerate(self._off_us):
            if off_us != ON:
                self._note_off(node, end_us)

    # --- inside -------------------------------------------------------------------------------------------------

    def _rest(self, node: int, since_us: int) -> None:
        if self._power.computing[node]:
            self._due_us[node] = since_us + self._file.after
            insort(self._idle, node)
            heappush(self._queue, (self._due_us[node], node))

    def _wake(self, node: int) -> bool:
        """A node is not idle any more; False: it was not."""
        at = bisect_left(self._idle, node)
        found = at < len(self._idle) and self._idle[at] == node
        if found:
            del self._idle[at]
        return found

    def _advance(self, now: int) -> int:
        """Switch off what has been idle for long enough before now, but for the first that stay on; returns now.

        Nodes may fail before the first job is submitted; until then all others are on, and nothing happens.
        """
        keep, at_us = self._file.keep_on, self._changed_us
        last_kept = -1 if keep == 0 else self._idle[keep - 1] if len(self._idle) >= keep else len(self._held)
        while at_us < now:
            while self._queue and self._queue[0][0] <= at_us:
                heappush(self._ripe, -heappop(self._queue)[1])
            while self._ripe and -self._ripe[0] > last_kept:
                node = -heappop(self._ripe)
                if self._due_us[node] <= at_us and self._wake(node):
                    self._off_us[node] = at_us
            at_us = self._queue[0][0] if self._queue else now
        self._changed_us = max(now, self._changed_us)
        return self._changed_us

    def _note_off(self, node: int, now: int, whole: bool = False) -> int:
        """Note that a node was switched off until now; ``whole``: it first goes off wholly; returns when that was."""
        at_us = self._off_us[node]
        off_us = at_us + self._file.shutdown
        until_us = max(now, off_us) if whole else now
        self._spell(node, at_us, min(off_us, until_us), self._file.shutdown_watts)
        if until_us > off_us:
            less_mw = int(self._power.off_mw[node] - self._power.idle_mw[node])
            self.spells.append(Spell(node, off_us, until_us, less_mw, True))
        self._off_us[node] = ON
        return until_us

    def _spell(self, node: int, start_us: int, end_us: int, drawn_mw: int | None) -> None:
        more_mw = 0 if drawn_mw is None else drawn_mw - int(self._power.idle_mw[node])
        self.spells.append(Spell(node, start_us, end_us, more_mw))
