"""Why a job waits, in words of its site and of what it waits for by its own word."""

from __future__ import annotations

from functools import cached_property

from unrack.facts import some
from unrack.reasons import Code, Reason
from unrack.resources.site.features import words
from unrack.resources.site.installed import QUANTITIES, WHERE, Site
from unrack.resources.site.kept import OUTSIDE
from unrack.sim.graph import NEVER, OPEN
from unrack.sim.kernel import Kernel
from unrack.units import SECOND_US, seconds_text
from unrack.workload.site.graph import After

KINDS = ("to start", "to end well", "to fail", "to end", "to end", "to start")  # by After
MOST = 4
"""Jobs that are named."""


class Waits:
    """Tells why jobs of a run wait, as it goes on."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.jobs = kernel, kernel.jobs
        site = kernel.core.state.cluster.places.installed.get("site")
        self.site = site if isinstance(site, Site) else None

    def held(self, job: int, now: int) -> Reason:
        """Why a job is not queued yet: the jobs that it waits for, or its time."""
        graph = self.kernel.graph
        assert graph is not None
        open_ways = [
            " or ".join(self._awaited(*way) for way in ways if graph.met(*way)[0] != NEVER)
            for ways in graph.waits.get(job, ())
            if all(graph.met(*way)[0] in (OPEN, NEVER) for way in ways)
        ]
        if open_ways:
            return Reason(Code.DEPENDENCY, some(open_ways, MOST))
        return Reason(Code.DEPENDENCY, f"its time to begin, {graph.due.get(job, now) / SECOND_US:,.0f} s")

    def _awaited(self, other: int, kind: After, more_us: int) -> str:
        more = f" and {seconds_text(more_us / SECOND_US)} more" if more_us else ""
        return f"job {self.jobs.ids[other]} {KINDS[kind]}{more}"

    def in_words(self, job: int, reason: Reason) -> Reason:
        """A reason with the nodes that it is about, where the job, or the one in its way, may not use all."""
        if reason.code in (Code.BEHIND, Code.WOULD_DELAY) and reason.what.startswith("job "):
            other = self._number_of.get(reason.what.removeprefix("job "), job)
            if self._where(other) != self._where(job):
                return reason._replace(what=f"{reason.what}, which waits for nodes {self._nodes(other)}")
        if reason.code == Code.NO_ROOM and reason.what != "cores" and OUTSIDE not in reason.what:
            where = f", on nodes {self._nodes(job)}" if self._where(job) else ""
            kept = self._kept(job) if "node" in reason.what or "places" in reason.what else ""
            return reason._replace(what=f"{reason.what}{where}{kept}")
        return reason

    def _kept(self, job: int) -> str:
        """How many of the nodes that a job may use are kept for others, or without jobs, for a part of its time."""
        view = self.kernel.core.view
        if not view.cluster.places.windows:
            return ""
        own, open_now = view.columns.set_of[job], view.outside_windows(job)
        count = int(((view.columns.open_to[own, 0] > 0) & ~open_now).sum())
        if view.columns.set_owner[own] and not open_now.any():
            return ", at a time at which it may start"
        return f", {count} of which are kept free for a part of the time that it asks for" if count else ""

    def _nodes(self, job: int) -> str:
        number = self._where(job)
        return words(self.site.wheres[number - 1]) if number and self.site is not None else "of the cluster"

    def _where(self, job: int) -> int:
        asked = self.jobs.devices.get(("site", QUANTITIES[WHERE]))
        return 0 if asked is None else int(asked[job])

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {str(name): number for number, name in enumerate(self.jobs.ids.to_list())}
