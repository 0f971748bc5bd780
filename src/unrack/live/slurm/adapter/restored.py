"""Whether Slurm still knows what the users of jobs want that were placed and are held again: a killed one may not."""

from __future__ import annotations

from collections.abc import Iterable

from unrack.live.driver.seen import Seen, Shown
from unrack.live.driver.state.stage import INTENDED, Phase
from unrack.live.driver.state.table import Table
from unrack.live.slurm.adapter.asked import asked_before, asks_by_name, is_as_asked
from unrack.units import SECOND_US

WRITTEN_US = 15 * SECOND_US
"""After how long what Slurm was told counts as written down: it writes all five seconds after a change."""

WAITS = frozenset({Phase.WAITING, Phase.ASIDE})
BUSY = (INTENDED | {Phase.DETACHING}) - {Phase.RECALLING}
"""Jobs that wait; and those that get another place, or are looked at once more before they wait."""


class Restored:
    """The jobs that wait, held, and whose place Slurm may have in them: it was told what their users want just now.

    They are kept in memory alone: a driver that begins anew waits for each as long again.
    """

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self.forgotten: frozenset[str] = frozenset()

    def told(self, keys: Iterable[str]) -> None:
        """Jobs are given orders: what was seen of them before says nothing."""
        for key in keys:
            self._since.pop(key, None)

    def due(self, now: int) -> bool:
        """Whether it is time to look at one of them."""
        return any(now - since >= WRITTEN_US for since in self._since.values())

    def look(self, seen: Seen, table: Table, now: int) -> None:
        """Look at each; those that are not what they were to be are :attr:`forgotten` until the next look."""
        before, self._since, forgotten = self._since, {}, set[str]()
        for entry in table:
            job, own = seen.jobs.get(entry.key), asked_before(entry)
            if not own.pinned or not asks_by_name(own) or entry.phase in BUSY or job is None or job.shown != Shown.HELD:
                continue
            since = before.get(entry.key, now)
            if now - since < WRITTEN_US or entry.phase not in WAITS:
                self._since[entry.key] = since
            elif is_as_asked(entry, job.own.job):
                entry.own = own._replace(pinned=False)
                table.touch(entry)
            else:
                forgotten.add(entry.key)
        self.forgotten = frozenset(forgotten)
