"""The resource ``spread``: its key and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints
from unrack.reasons import Code, Reason
from unrack.resources.checked import Strict, validated
from unrack.resources.contract import NONE_ATTACHED, Gangs, Installed, Nodes, Usual, UsualResource, no_room
from unrack.resources.grid import Grid
from unrack.resources.use import Kept, Table, ends_of, rows_by_policy
from unrack.steps import held_between

MOST_PLACES = 20_000_000
"""Groups × nodes."""
WHOLE = 720_720
"""What every group has on every node. All numbers up to 16 divide it, so that limits up to 16 are exact."""
QUANTITIES = ("group", "most")
GROUP, MOST = range(2)
HEAD = ("policy", "jobs with a limit", "groups", "nodes of a group", "of these at the limit")
WORDS = (
    "Nodes of a group: pairs of a group and a node on which instances of it ran. At the limit: those on which "
    "there was no room, at some time, for another instance like the smallest there."
)


class Spread(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "spread"
    title = "Instances kept apart"

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The groups of a cluster file."""
        return Limits(table, nodes, where)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """A table of the limits: a row a policy, over its seeds."""
        rows = rows_by_policy(runs, _row)
        return (Table("Instances of a group on a node", WORDS, HEAD, rows),) if rows else ()


def _row(policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    jobs = groups = pairs = full = 0
    for run in runs:
        found = at_the_limit(run.claims)
        jobs += run.claims["job"].n_unique()
        groups += found["place"].str.split(" on ").list.first().n_unique()
        pairs += found.height
        full += int(found["full"].sum())
    share = f"{100 * full / pairs:.1f} %" if pairs else "–"
    return policy, *(f"{count / len(runs):,.0f}" for count in (jobs, groups, pairs)), share


def at_the_limit(claims: pl.DataFrame) -> pl.DataFrame:
    """Columns ``place`` and ``full``: whether at some time no room was left for the smallest claim there.

    Examples
    --------
    >>> claims = pl.DataFrame({"place": ["a", "a", "b"], "start_s": [0.0, 2.0, 0.0], "end_s": [2.0, 3.0, 9.0],
    ...                        "amount": [360360, 360360, 720720]})
    >>> at_the_limit(claims).sort("place").rows()
    [('a', False), ('b', True)]
    """
    lasting = claims.filter(pl.col("end_s") > pl.col("start_s")).sort("start_s")
    found = [
        (place, int(held_between(own, *ends_of(own))[1].max()) + int(own["amount"].to_numpy().min()) > WHOLE)
        for (place,), own in lasting.partition_by("place", as_dict=True).items()
    ]
    return pl.DataFrame(found, {"place": pl.String, "full": pl.Boolean}, orient="row")


class Limits(Usual):
    """The groups of a cluster; see :class:`unrack.resources.contract.Installed`.

    A task that wants at most ``most`` of its group on its node takes ``WHOLE`` / ``most`` of what the group has there,
    rounded up. Tasks with the same limit are then at most so many (fewer at some limits above 16), and of tasks with
    several limits the parts of all are at most 1.
    """

    quantities = QUANTITIES

    def __init__(self, table: Any, nodes: Nodes, where: str) -> None:
        self._nodes = nodes
        self._with_cores = np.flatnonzero(nodes.cores > 0)
        self._file = validated(SpreadFile.model_validate, table, f"{where}.", SpreadFile.model_fields)
        if self._file.groups * len(self._with_cores) > MOST_PLACES:
            want = f"at most {MOST_PLACES // len(self._with_cores)} of them on {len(self._with_cores)} nodes"
            raise ClusterError(f"{where}.groups", str(self._file.groups), want)
        self._column = np.full(len(nodes.cores), -1, np.int64)
        self._column[self._with_cores] = np.arange(len(self._with_cores))
        self.groups = self._file.groups
        groups = [f"group{number}" for number in range(1, self.groups + 1)]
        self.places = Grid(groups, [f"node{node}" for node in self._with_cores.tolist()], QUANTITIES[GROUP], WHOLE)

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: on each node where tasks run, the share of all of them."""
        if not _limited(asked):
            return np.empty((0, 2), np.int64)
        on_each = self._on_each(nodes, tasks)
        at = np.flatnonzero(on_each)
        return np.stack([self._first(asked) + at, on_each[at] * share(int(asked[MOST]))], axis=1)

    def adds_up(self, asked: Ints) -> bool:
        """Shares do."""
        return True

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes]: where one more task finds its share."""
        found = np.ones(len(self._column), np.bool_)
        if _limited(asked):
            needs = (self._on_each(nodes, tasks) + 1) * share(int(asked[MOST]))
            found[:] = False
            found[self._with_cores] = self._of_group(asked, free) >= needs
        return found

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: of a group that there is not, or with more tasks than the limit leaves places for."""
        if quantity == MOST:  # says how the group is asked for
            return np.zeros(len(asked), np.bool_)
        most = np.asarray(gangs.asked.get(QUANTITIES[MOST], np.zeros(len(asked), np.int64)), np.int64)
        found: Bools = asked > self.groups
        return found | no_room(np.where((asked > 0) & ~found, most, 0), gangs, self._room)

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """The group that there is not, or the places that the limit leaves."""
        if asked > self.groups:
            return Reason(Code.TOO_BIG, f"spread.{QUANTITIES[quantity]}", asked, self.groups)
        most, tasks = int(gangs.asked[QUANTITIES[MOST]][0]), int(gangs.tasks[0])
        room = self._room(most, int(gangs.cores[0]), int(gangs.mb_on_nodes[0]))
        return Reason(Code.TOO_BIG, _places_of(asked, most), tasks, room)

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """The places that the limit leaves now, where they are too few."""
        if not _limited(asked):
            return None
        most = int(asked[MOST])
        room = int((self._of_group(asked, free) // share(most)).sum())
        return None if room >= tasks else Reason(Code.NO_ROOM, _places_of(int(asked[GROUP]), most), tasks, room)

    def written(self) -> dict[str, Any]:
        """The keys of the cluster file."""
        return self._file.model_dump()

    def _first(self, asked: Ints) -> int:
        return (int(asked[GROUP]) - 1) * len(self._with_cores)

    def _of_group(self, asked: Ints, free: Ints) -> Ints:
        """int64[nodes with cores]: what the group has free; none of a group that there is not."""
        first = self._first(asked)
        own: Ints = free[first : first + len(self._with_cores)]
        return own if len(own) else np.zeros(len(self._with_cores), np.int64)

    def _on_each(self, nodes: Ints, tasks: Ints) -> Ints:
        at = self._column[nodes]
        return np.bincount(at[at >= 0], tasks[at >= 0], len(self._with_cores)).astype(np.int64)

    def _room(self, most: int, cores: int, mb: int) -> int:
        return int(np.minimum(self._nodes.room_for(cores, mb), WHOLE // share(most)).sum())


def share(most: int) -> int:
    """What a task takes of its group's whole on a node, with at most so many there.

    Examples
    --------
    >>> [share(most) for most in (1, 8, 16, 17)]
    [720720, 90090, 45045, 42396]
    """
    return -(-WHOLE // most)


def _limited(asked: Ints) -> bool:
    return bool(asked[GROUP] > 0 and asked[MOST] > 0)


def _places_of(group: int, most: int) -> str:
    return f"places for tasks of group {group}, at most {most} on a node"


class SpreadFile(Strict):
    """A ``spread`` table."""

    # how many groups there may be: jobs name theirs by a number from 1 to this
    groups: Annotated[int, Field(ge=1, le=MOST_PLACES, strict=True)]
