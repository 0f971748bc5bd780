"""How the nodes of a plan are grouped: as coarsely as is exact for the jobs that wait, and anew when others do.

Nodes are one group as long as no waiting job, and no window that one of them could meet, tells them apart: what no
waiting job lacks divides nothing. Reservations are carried over from one grouping to the next at their time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_US, CPU, ENDS_US, OF_JOB, grown_rows
from unrack.ledger.lease import CORES, FIRST, NODES, nodes_of, ranges
from unrack.policy.discipline.queue_pass import Passes
from unrack.policy.discipline.skyline.columns import (
    CARRIED,
    CLOSES_US,
    FIRST_GROUP,
    FIRST_OF,
    FROM,
    KEPT,
    LAST_GROUP,
    LAST_OF,
    OPENS_US,
    OWNER,
    REACH,
    SEARCHES,
    Grain,
    spans_of,
)
from unrack.units import NEVER_US
from unrack.view import View

MOST_KNOWN = 256
"""Of so many ways to divide the nodes it is known what they lead to."""
Masks = dict[bytes, Any]
"""Sets of nodes: bool[nodes] each, by their bytes."""


@dataclass(slots=True)
class Grouped(Passes):
    """Groups of nodes, and what divides them."""

    place: Any = None  # by which rule nodes are chosen
    # which sets waited, and which windows they might meet, at the last look; ``None``: these are others now
    marks: tuple[bytes, bytes] | None = None
    divided: Masks = field(default_factory=dict)  # what does divide them
    needed: Any = None  # bool[windows]: by which windows
    known_groups: dict[frozenset[bytes], Any] = field(default_factory=dict)  # by what divides: what `_divide` needs
    # int64[nodes]: 1: a node that is a group of its own, as a job may use it that asks for more than a core a task
    named: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    judged: int = 0  # of how many jobs it is known whether they do
    elsewhere: int = -1  # how often something was given back that was not on nodes alone

    def group(self, view: View, place: Any) -> None:
        """Group the nodes for the jobs that wait."""
        apart = self.chosen or (self.rule.whole and view.columns.suspended)  # those have memory of idle nodes
        apart = apart or self.columns.cursor[SEARCHES]  # searches look at what runs on each node
        self.place, self.judged, self.named = place, 0, np.full(view.total.shape[1], int(bool(apart)))
        self._name(view, view.queue, 0)
        self.marks, masks, needed = self._marks(view, view.queue, 0)
        self._divide(view, masks, needed)

    def regroup(self, view: View, jobs: Ints, reach_us: int = 0) -> Ints:
        """Group the nodes for these jobs, if they are to be grouped otherwise than before and not one by one.

        Reservations keep their times, but where cores were counted and now nodes are told apart by name: there jobs are
        to be reserved for anew, in order of start. Returns the jobs in the order in which they are to be looked at.
        """
        before, one = self.named, len(view.columns.open_to) == 1 and not len(self.columns.windows)
        fresh = self._name(view, jobs, reach_us)
        if one and not fresh and self.marks is not None:
            return jobs
        if fresh or self.marks is None:
            self.marks = None
            self.known_groups.clear()
        marks, masks, needed = self._marks(view, jobs, reach_us)
        if marks == self.marks:
            return jobs
        # where they overlap counting is not exact, so what divided the nodes before may as well go on to
        if sum(map(np.count_nonzero, masks.values())) > np.count_nonzero(sum(masks.values())):
            masks = self.divided | masks
            needed = needed | (self.needed if self.marks is not None else False)
        known, self.marks = self.marks is not None and masks.keys() == self.divided.keys(), marks
        if known and np.array_equal(needed, self.needed):
            return jobs
        of = self.columns.of
        self._divide(view, masks, needed)
        reserved = jobs[self.columns.start[jobs] >= 0]
        if fresh:
            reserved, jobs = self._without_places(view, reserved, jobs, self.named > before, bool(needed.any()))
        if len(reserved):
            self.lay(view, reserved, of)
        return jobs

    def _without_places(self, view: View, reserved: Ints, jobs: Ints, new: Any, windows: bool) -> tuple[Ints, Ints]:
        """Forget reservations on nodes that are told apart now, if the jobs that have them may all use the same.

        No reservation is later then: at the reserved start of a job those before it have begun, so that what is free
        stays free. Returns the jobs that have a reservation still, and all in the order in which to look at them.
        """
        c = self.columns
        own = c.set_of[reserved]
        hit = ((view.columns.open_to[own, CPU] > 0) & new).any(axis=1)
        sets = np.unique(own[hit])
        if windows or len(sets) != 1 or c.meets[sets[0], np.unique(own[~hit])].any():
            return reserved, jobs
        place = np.flatnonzero(np.isin(jobs, reserved[hit]) | (c.set_of[jobs] == sets[0]))
        jobs = np.copy(jobs)
        jobs[place] = self.by_start(jobs[place])
        c.start[reserved[hit]] = -1
        return reserved[~hit], jobs

    def _name(self, view: View, jobs: Ints, reach_us: int) -> bool:
        """Note the nodes that are told apart by name; whether there are others than before.

        Those of jobs that ask for more than a core a task; all, if these ``jobs`` may meet a window that keeps some
        cores of nodes; and of these all of each that may use one of them: it matters to others which it takes.
        """
        first, self.judged, columns = self.judged, view.jobs, view.columns
        asks, claims = columns.asks[:, first : view.jobs], self._meets_kept_cores(view, jobs, reach_us)
        unlike = (asks[ASKED_CORES] != 1) | (asks[ASKED_MB] != 0)
        if self.rule.whole or not (unlike.any() or claims or self.named.any()):
            return False
        sets, before = columns.open_to[:, CPU] > 0, self.named > 0
        named = before | sets[np.unique(columns.set_of[first : view.jobs][unlike])].any(axis=0) | claims
        waiting = sets[np.unique(columns.set_of[jobs])]
        while (more := named | waiting[(waiting & named).any(axis=1)].any(axis=0)).sum() > named.sum():
            named = more
        self.named = named.astype(np.int64)
        return bool((named > before).any())

    def _meets_kept_cores(self, view: View, jobs: Ints, reach_us: int) -> bool:
        c = self.columns
        if not (len(c.kept) and c.kept_of[jobs].any()):
            return False
        own = np.abs(view.columns.set_owner[c.set_of[jobs]])
        met = (c.kept[:, OPENS_US] < self._reach(view, jobs, reach_us)) & (c.kept[:, CLOSES_US] > view.now)
        return bool(met.any() or own.any())

    def _reach(self, view: View, jobs: Ints, reach_us: int) -> int:
        """Until when these jobs may run, as reserved, µs."""
        start = self.columns.start[jobs]
        ends = np.where(start >= 0, start + np.maximum(1, self.columns.asks[ASKED_US, jobs]), 0)
        return max(reach_us, int(ends.max(initial=0)), view.now + 1)

    def _marks(self, view: View, jobs: Ints, reach_us: int) -> tuple[tuple[bytes, bytes], Masks, Any]:
        """What divides the nodes: in short; each set and each window of these; bool[windows]: which these are."""
        c, columns = self.columns, view.columns
        sets, windows = np.flatnonzero(np.bincount(columns.set_of[jobs])), c.windows
        needed = np.zeros(len(windows), np.bool_)
        if len(windows):
            own = np.abs(columns.set_owner[sets])
            met = (windows[:, OPENS_US] < self._reach(view, jobs, reach_us)) | np.isin(windows[:, OWNER], own[own > 0])
            needed = met & (windows[:, CLOSES_US] > view.now) & (windows[:, LAST_OF] > windows[:, FIRST_OF])
        marks = sets.tobytes(), needed.tobytes()
        if marks == self.marks:
            return marks, {}, needed
        masks = [*(columns.open_to[sets, CPU] > 0)]
        for window in windows[needed]:
            kept = np.zeros(len(self.named), np.bool_)
            kept[c.window_rows[window[FIRST_OF] : window[LAST_OF], FIRST]] = True
            masks.append(kept)
        return marks, {mask.tobytes(): mask for mask in masks}, needed

    def _divide(self, view: View, masks: Masks, needed: Any) -> None:
        self.divided, self.needed, key = masks, needed, frozenset(masks)
        if key not in self.known_groups:
            if len(self.known_groups) == MOST_KNOWN:
                self.known_groups.clear()
            grain, of, first_node, rank = self._groups(view, masks)
            total, named = np.ascontiguousarray(view.columns.open_to[:, :, first_node]), self.named[first_node]
            groups = {"of": of, "total": total, "group_spans": spans_of(total), "rank": rank, "named": named}
            self.known_groups[key] = grain, first_node, groups
        grain, first_node, groups = self.known_groups[key]
        self.rule = self.rule._replace(grain=int(grain))
        width, steps = len(first_node) + len(self.columns.place_of), len(self.columns.times)
        level, low = np.zeros((steps, 2, width), np.int64), np.zeros((2, 2, width), np.int64)
        self.replace(**groups, level=level, low=low)
        cursor = self.columns.cursor
        cursor[REACH] = NEVER_US
        if len(needed):
            self._windows_by_group(view.now, first_node, needed | (grain == Grain.NODES))
        cursor[KEPT] = cursor[CARRIED] = cursor[FROM] = 0
        self.columns.grown[:] = NEVER_US

    def _groups(self, view: View, masks: Masks) -> tuple[Grain, Ints, Ints, Ints]:
        """What is counted; int64[nodes]: the group of each; int64[groups]: the first node, and the order."""
        nodes, whole = len(self.named), self.rule.whole
        if self.named.all():
            every = np.arange(nodes)
            return Grain.NODES, every, every, every
        alike = np.stack([*masks.values(), *(view.total if whole else [self.named * np.arange(1, nodes + 1)])])
        kinds, first_node, of = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        if whole:
            by_size = np.lexsort((first_node, kinds[-1], kinds[-2]))
            rank = {"best-fit": by_size, "worst-fit": by_size[::-1]}.get(self.place, np.argsort(first_node))
            return Grain.WHOLE, of.ravel(), first_node, np.ascontiguousarray(rank)
        # nodes that few may use are filled last, those that are told apart by name behind all others
        order = np.lexsort((first_node, np.where(kinds[-1] > 0, nodes, kinds[:-1].sum(axis=0))))
        return Grain.CORES, np.argsort(order)[of.ravel()], first_node[order], np.arange(len(order))

    def _windows_by_group(self, now: int, first_node: Ints, needed: Any) -> None:
        """What windows keep of groups, which are in a window whole or not at all; a plan ends before all others."""
        c, rows = self.columns, list[list[int]]()
        windows, whole = c.windows.copy(), self.rule.grain == Grain.WHOLE
        each = [np.ones(len(c.of)), np.zeros(len(c.of))] if whole else c.installed[0]
        sums = [np.bincount(c.of, weights=one, minlength=len(first_node)).astype(int).tolist() for one in each]
        for window, counts in zip(windows, needed.tolist(), strict=True):
            inside = np.isin(first_node, c.window_rows[window[FIRST_OF] : window[LAST_OF], 0]) & counts
            window[FIRST_GROUP] = len(rows)
            rows += [[group, 1, 1, sums[0][group], sums[1][group]] for group in np.flatnonzero(inside).tolist()]
            window[LAST_GROUP] = len(rows)
        self.replace(windows=windows, window_groups=np.array(rows, np.int64).reshape(-1, 5))
        beyond = ~needed & (windows[:, LAST_OF] > windows[:, FIRST_OF]) & (windows[:, CLOSES_US] > now)
        later = c.kept[(c.kept[:, CLOSES_US] > now) & (self.rule.grain != Grain.NODES), OPENS_US]
        c.cursor[REACH] = min(windows[beyond, OPENS_US].min(initial=NEVER_US), later.min(initial=NEVER_US))

    def look_at_sets(self, view: View) -> None:
        """Take over which nodes jobs may use, and when; the groups stay until jobs wait that divide them."""
        super(Grouped, self).look_at_sets(view)
        self.marks = None
        if self.columns.total.shape[2] and self.rule.grain == Grain.NODES:
            self.replace(total=self.columns.installed, group_spans=self.columns.spans)

    def look_where(self, view: View, row: int, before: int) -> None:
        """Let reservations stay that can have no part in what was given back since a mark, of a row of ``view.local``.

        That is on nodes which they may not use, nor may others with reservations that move. Below 0: none need stay.
        """
        count = len(view.columns.open_to)
        if count == 1:
            return
        self.look(view)
        c, local = self.columns, view.local[row]
        c.stays[:] = 0
        elsewhere, self.elsewhere = self.elsewhere, (view.releases if row else view.unforeseen) - int(local[-1])
        claims = self.fixed > 0 and np.ptp(c.fixed_at[:, view.queue], axis=0).any()
        if before < 0 or elsewhere != self.elsewhere or claims:
            return
        sets = np.flatnonzero(np.bincount(c.set_of[view.queue], minlength=count))
        meets = c.meets[sets][:, sets] > 0
        hit = view.columns.open_to[sets, CPU][:, local[:-1] > before].any(axis=1)
        while not hit.all() and (more := meets[hit].any(axis=0)).sum() > hit.sum():
            hit = more
        c.stays[sets[~hit]] = 1

    def lay(self, view: View, jobs: Ints, before: Ints | None) -> None:
        """Lay reservations of other groups (int64[nodes]; by default nodes) on those of this plan, by start.

        What a reservation has of a group goes to parts of it that are free then; the last takes what has no room.
        """
        c, named = self.columns, before is None and self.grain == Grain.WHOLE  # each row is a node, which counts as one
        before, jobs = np.arange(len(c.of)) if before is None else before, self.by_start(jobs)
        if np.array_equal(before, c.of):  # loans among the rows stay, which are of no group
            return
        pairs, piece = np.unique(before * len(c.of) + c.of, return_inverse=True)
        old, new = pairs // len(c.of), pairs % len(c.of)
        room = GroupRoom(view, piece, len(old), self.rule.whole) if (old[1:] == old[:-1]).any() else None
        found, at = list[list[int]](), 0
        for job in jobs.tolist():
            own = dict[int, list[int]]()  # of each group: tasks, cores or nodes, MB
            start, length = int(c.start[job]), max(1, int(c.asks[ASKED_US, job]))
            for first, nodes, tasks, amount, mb in c.rows[c.where[0, job] : c.where[1, job]].tolist():
                amount, mb = (1, 0) if named else (amount, mb)
                for g in range(first, first + nodes):
                    pieces, left, tasks_left = np.flatnonzero(old == g).tolist(), amount, tasks
                    for p in pieces:
                        last = room is None or p == pieces[-1]
                        here = left if last or room is None else min(left, room.free(p, start))
                        with_them = tasks_left if last else min(tasks_left, -(-tasks * here // max(1, amount)))
                        if here > 0 or with_them > 0:
                            has = own.setdefault(int(new[p]), [0, 0, 0])
                            has[:] = has[0] + with_them, has[1] + here, has[2] + mb * (len(pieces) == 1)
                        if room is not None:
                            room.taken.append((p, here, start, start + length))
                        left, tasks_left = left - here, tasks_left - with_them
            rows = [[g, 1, *amounts] for g, amounts in sorted(own.items())]
            c.where[0, job], c.where[1, job], at = at, at + len(rows), at + len(rows)
            found += rows
        kept = grown_rows(np.array(found, np.int64).reshape(-1, 5), len(c.new_rows))
        self.replace(rows=kept, new_rows=kept.copy())


class GroupRoom:
    """What is free of pieces of groups (int64[nodes]) at times to come, in nodes or in cores, beside what is taken."""

    def __init__(self, view: View, piece: Ints, count: int, whole: bool) -> None:
        free, now = view.free[CPU], view.now
        there = (free > 0) & (free == view.total[CPU]) if whole else free
        self._free = np.bincount(piece, weights=there, minlength=count).astype(np.int64)
        ends, jobs = view.running[[ENDS_US, OF_JOB], : view.running_count]
        first, rows = view.lease_at[:, jobs]
        held, ends = view.pool[ranges(first, rows)], np.repeat(np.where(ends == now, now, ends.clip(now + 1)), rows)
        each = np.repeat(np.ones(len(held), np.int64) if whole else held[:, CORES], held[:, NODES])
        where, ends = piece[nodes_of(held)], np.repeat(ends, held[:, NODES])
        order = np.lexsort((ends, where))
        self._first = np.searchsorted(where[order], np.arange(count + 1))
        self._ends, self._back = ends[order], np.append(0, np.cumsum(each[order]))
        self.taken = list[tuple[int, int, int, int]]()  # piece, amount, from, until

    def free(self, piece: int, start_us: int) -> int:
        """How much of a piece is free at a time; what starts later comes later."""
        first, last = self._first[piece : piece + 2].tolist()
        over = first + int(np.searchsorted(self._ends[first:last], start_us, "right"))
        taken = sum(amount for p, amount, a, b in self.taken if p == piece and a <= start_us < b)
        return max(0, int(self._free[piece] + self._back[over] - self._back[first]) - taken)
