"""Whether Slurm still knows what the users of jobs want that were placed and are held again: a killed one may not."""

from __future__ import annotations

from unrack.live.driver.seen import Seen, Shown
from unrack.live.driver.state.stage import Phase
from unrack.live.driver.state.table import KnownJobs
from unrack.live.slurm.adapter.asked import asked_before, asks_by_name, is_as_asked
from unrack.units import SECOND_US

WRITTEN_US = 15 * SECOND_US
"""After how long what Slurm was told counts as written down: it writes five seconds after a change."""


class Restored:
    """The held jobs that may have a place in them yet; a driver that begins anew waits for each as long again."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # when they were first seen held, µs
        self.forgotten: frozenset[str] = frozenset()  # those that are not as they were to be, by the last look

    def due(self, now: int) -> bool:
        """Whether it is time to look at one of them."""
        return any(now - since >= WRITTEN_US for since in self._since.values())

    def look(self, seen: Seen, table: KnownJobs, now: int) -> None:
        """Look at each: what its user wants is in it, or is to be told to Slurm once more."""
        before, self._since, forgotten = self._since, {}, set[str]()
        for entry in table:
            job, own = seen.jobs.get(entry.key), asked_before(entry)
            if not own.pinned or not asks_by_name(own) or job is None or job.shown != Shown.HELD:
                continue
            waits = entry.phase in (Phase.WAITING, Phase.ASIDE)  # in all others it is told something
            since = before.get(entry.key, now) if waits else now
            if now - since < WRITTEN_US:
                self._since[entry.key] = since
            elif is_as_asked(entry, job.own.job):
                entry.own = own._replace(pinned=False)
                table.touch(entry)
            else:
                forgotten.add(entry.key)
        self.forgotten = frozenset(forgotten)
