"""What servers ask of the tiers of memory: how much must be local, how remote the rest may be, and which stay apart.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation. KTH, technical report: section 4.1, equations 1 and 2.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.kernels.arrays import Bools, Ints

NO_CEILING = 2**53
"""Instead of a ceiling: none. No sum of weighted memory comes near it."""


Mb = TypeVar("Mb", int, Ints)


def scaled_ceiling(mb: Mb, cost_scale: int) -> Mb:
    """Ceilings in units of 1 / ``cost_scale`` MB; none stays more than any memory weighs."""
    most = NO_CEILING // cost_scale
    return (min(mb, most) if isinstance(mb, int) else np.minimum(mb, most)) * cost_scale


_COLUMNS = ("floor_mb", "ceiling_mb", "group", "spread", "forbidden")
BETWEEN = ";"
"""Between the names of forbidden tiers, in text."""


class TierAsk(NamedTuple):
    """A row of :class:`TierAsks`, with names: ``spread`` is empty where replicas may be anywhere."""

    floor_mb: int
    ceiling_mb: int
    group: int
    spread: str
    forbidden: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TierAsks:
    """What each job, a server of one task, asks of the tiers of memory, in columns."""

    floor_mb: Ints  # int64[jobs]: memory that must be local, 0 to all of it
    # int64[jobs]: the most remote memory, each MB counted with the weight of its tier; :data:`NO_CEILING` = any
    ceiling_mb: Ints
    group: Ints  # int64[jobs]: index into ``group_names``: servers of one group are replicas of each other; -1 = none
    # int64[jobs]: Index into ``spread_names``: no two servers of the group share a failure domain of that level; -1 =
    # they may. All of a group have the same, and none has one without a group.
    spread: Ints
    # bool[jobs, tiers]: tiers, as in ``tier_names``, that the server must have no memory of
    forbidden: Bools
    group_names: tuple[str, ...] = ()
    spread_names: tuple[str, ...] = ()
    tier_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.floor_mb)

    @property
    def any(self) -> bool:
        """Whether some job asks for anything."""
        limits = bool((self.floor_mb > 0).any() or (self.ceiling_mb < NO_CEILING).any())
        return limits or bool((self.spread >= 0).any() or self.forbidden.any())

    def of(self, job: int) -> TierAsk:
        """What one job asks."""
        spread = int(self.spread[job])
        level = self.spread_names[spread] if spread >= 0 else ""
        floor, ceiling, group = int(self.floor_mb[job]), int(self.ceiling_mb[job]), int(self.group[job])
        return TierAsk(floor, ceiling, group, level, self.forbidden_of(job))

    def take(self, index: Ints | slice) -> TierAsks:
        """The asks of some jobs, in the order given."""
        return replace(self, **{name: getattr(self, name)[index] for name in _COLUMNS})

    def add_to(self, total: hashlib._Hash) -> None:
        """Feed everything into a hash."""
        for name in _COLUMNS:
            total.update(np.ascontiguousarray(getattr(self, name)).astype("<i8").tobytes())
        total.update(repr((self.group_names, self.spread_names, self.tier_names)).encode())

    def forbidden_of(self, job: int) -> tuple[str, ...]:
        """Names of the tiers that a job must have no memory of."""
        return tuple(name for name, never in zip(self.tier_names, self.forbidden[job].tolist(), strict=True) if never)

    def texts(self) -> dict[str, pl.Series]:
        """``group`` with ``spread``, and ``forbidden``, in words, null = none; what is asked of no job is left out."""
        found = {}
        if (self.group >= 0).any():
            found = {"group": named(self.group, self.group_names), "spread": named(self.spread, self.spread_names)}
        if self.forbidden.any():
            rows, which = np.unique(self.forbidden, axis=0, return_inverse=True)
            words = [BETWEEN.join(self.tier_names[tier] for tier in np.flatnonzero(row)) or None for row in rows]
            found["forbidden"] = pl.Series(words, dtype=pl.String).gather(which.reshape(-1))
        return found


def tier_asks(
    floor_mb: Ints,
    ceiling_mb: Ints | None = None,
    *,
    group: pl.Series | None = None,
    spread: pl.Series | None = None,
    forbidden: pl.Series | None = None,
) -> TierAsks:
    """Build the columns of :class:`TierAsks` from names; by default there is no ceiling.

    ``group``, ``spread``, ``forbidden``: names, null = none; several forbidden tiers with ``;`` between them.

    Examples
    --------
    >>> asks = tier_asks(np.array([100, 0]), forbidden=pl.Series([None, "rack; distant"]))
    >>> asks.tier_names, asks.forbidden_of(1), int(asks.ceiling_mb[0]) == NO_CEILING
    (('distant', 'rack'), ('distant', 'rack'), True)
    """
    count = len(floor_mb)
    groups, group_names = coded(group, count)
    levels, spread_names = coded(spread, count)
    sets, set_names = coded(forbidden, count)
    split = [sorted({name.strip() for name in names.split(BETWEEN)} - {""}) for names in set_names]
    tier_names = tuple(sorted({name for names in split for name in names}))
    rows = np.zeros((len(split) + 1, len(tier_names)), np.bool_)  # the last: nothing is forbidden
    for row, names in enumerate(split):
        rows[row, [tier_names.index(name) for name in names]] = True
    ceiling = np.full(count, NO_CEILING, np.int64) if ceiling_mb is None else np.asarray(ceiling_mb, np.int64)
    return TierAsks(
        np.asarray(floor_mb, np.int64), ceiling, groups, levels, rows[sets], group_names, spread_names, tier_names
    )


class Fault(NamedTuple):
    """An ask that cannot be: the row, the field (``local``, ``ceiling``, ``tasks`` or ``spread``), got and wanted."""

    row: int
    field: str
    got: str
    want: str


def first_fault(asks: TierAsks, tasks: Ints, memory_mb: Ints) -> Fault | None:
    """The first thing wrong with what is asked, field by field; ``None`` if nothing is."""
    grouped = asks.group >= 0
    of_first = np.full(len(asks.group_names), -1, np.int64)
    of_first[asks.group[grouped][::-1]] = asks.spread[grouped][::-1]  # the first of a group is written last
    expected = np.full(len(asks), -1, np.int64)
    expected[grouped] = of_first[asks.group[grouped]]
    for field, bad, want in (
        ("tasks", tasks != 1, "1: what asks for tiers of memory is one server"),
        ("local", asks.floor_mb < 0, "0 MB or more"),
        ("local", asks.floor_mb > memory_mb, "at most its memory of {memory} MB"),
        ("ceiling", asks.ceiling_mb < 0, "0 MB or more"),
        ("spread", ~grouped & (asks.spread >= 0), "a group beside it"),
        ("spread", asks.spread != expected, "{expected!r}, as the others of group {group!r}"),
    ):
        if bad.any():
            row = int(np.argmax(bad))
            level = [*asks.spread_names, "none"]
            groups = [*asks.group_names, ""]
            got = {
                "tasks": str(tasks[row]),
                "local": f"{asks.floor_mb[row]} MB",
                "ceiling": f"{asks.ceiling_mb[row]} MB",
                "spread": repr(level[asks.spread[row]]),
            }
            words = want.format(memory=memory_mb[row], expected=level[expected[row]], group=groups[asks.group[row]])
            return Fault(row, field, got[field], words)
    return None


def coded(values: pl.Series | None, count: int) -> tuple[Ints, tuple[str, ...]]:
    """int64[count]: values as indices into their names, which are in order; -1: null."""
    if values is None:
        return np.full(count, -1, np.int64), ()
    names = values.drop_nulls().unique().sort()
    codes = values.replace_strict(names, pl.Series(range(len(names)), dtype=pl.Int64), default=-1)
    return codes.cast(pl.Int64).fill_null(-1).to_numpy(), tuple(names.cast(pl.String).to_list())


def named(codes: Ints | NDArray[np.int32], names: tuple[str, ...]) -> pl.Series:
    """The opposite of :func:`coded`."""
    return pl.Series([*names, None], dtype=pl.String).gather(np.where(codes < 0, len(names), codes))
