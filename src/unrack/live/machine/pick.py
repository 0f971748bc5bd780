"""Which GPUs of one machine: those nearest to each other, by trying all sets that differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from unrack.errors import InputError
from unrack.resources.gpus.machines.machine import Machine, whole


class Choice(NamedTuple):
    """GPUs by number; the sum of distances between every two of them; and the least such sum on the empty machine."""

    gpus: tuple[int, ...]
    distance: float
    least: float

    @property
    def utility(self) -> float:
        """How near they are to the best set of as many: 1 is the best; a single GPU is always as good as it gets."""
        return self.least / self.distance if self.distance else 1.0


def choose(machine: Machine, wanted: int, held: Collection[int] = ()) -> Choice | None:
    """The set of free GPUs with the least sum of distances between every two.

    Of sets that are equal in this, that which touches the fewest sockets; then that with the fewest free
    GPUs on its sockets, which leaves others whole; then that with the lowest numbers.

    Parameters
    ----------
    machine
        The machine.
    wanted
        How many GPUs.
    held
        GPUs that are not free, by number; those that the machine does not have count for nothing.

    Returns
    -------
    Choice or None
        ``None``: fewer are free.

    Raises
    ------
    InputError
        The machine has fewer, or less than one is wanted.

    Notes
    -----
    GPUs of a socket that are equally far from all others stand for each other, so only the lowest of them are tried;
    sets that are worse than the best so far are left unfinished.

    Examples
    --------
    >>> from unrack.resources.gpus.machines.machine import preset
    >>> choose(preset("minsky"), 2, held={0})
    Choice(gpus=(2, 3), distance=1, least=1)
    """
    count = len(machine.gpus)
    if not 1 <= wanted <= count:
        raise InputError("--gpus", str(wanted), f"1 to {count}, as {machine.name} has so many")
    free = [gpu for gpu in range(count) if gpu not in held]
    if len(free) < wanted:
        return None
    gpus = _Search(machine, wanted, free).best()
    best = gpus if len(free) == count else _Search(machine, wanted, range(count)).best()
    return Choice(gpus, total(machine, gpus), total(machine, best))


def total(machine: Machine, gpus: Sequence[int]) -> float:
    """The sum of distances between every two GPUs."""
    return whole(sum(float(machine.distance[a, b]) for i, a in enumerate(gpus) for b in gpus[i + 1 :]))


class _Search:
    """All sets of some GPUs, lowest numbers first, as far as they can be better than the best so far."""

    def __init__(self, machine: Machine, wanted: int, free: Sequence[int]) -> None:
        self.wanted = wanted
        self.free = list(free)
        self.distance: list[list[float]] = machine.distance.tolist()
        self.socket: list[int] = machine.socket.tolist()
        homes = [self.socket[gpu] for gpu in self.free]
        self.crowd = {home: homes.count(home) for home in homes}
        self.near = min((self.distance[a][b] for a in self.free for b in self.free if a != b), default=0)
        self.twin_before = {gpu: self._twin(place) for place, gpu in enumerate(self.free)}
        self.found: tuple[tuple[float, int, int], tuple[int, ...]] | None = None

    def best(self) -> tuple[int, ...]:
        self._extend((), 0, 0)
        assert self.found is not None
        return self.found[1]

    def _extend(self, chosen: tuple[int, ...], first: int, cost: float) -> None:
        missing = self.wanted - len(chosen)
        if not missing:
            homes = [self.socket[gpu] for gpu in chosen]
            key = (cost, len(set(homes)), sum(self.crowd[home] for home in homes))
            if self.found is None or key < self.found[0]:
                self.found = key, chosen
            return
        pairs = self.wanted * (self.wanted - 1) // 2 - len(chosen) * (len(chosen) - 1) // 2
        if self.found is not None and cost + pairs * self.near > self.found[0][0]:
            return
        for place in range(first, len(self.free) - missing + 1):
            gpu = self.free[place]
            twin = self.twin_before[gpu]
            if twin is None or twin in chosen:
                self._extend((*chosen, gpu), place + 1, cost + sum(self.distance[gpu][one] for one in chosen))

    def _twin(self, place: int) -> int | None:
        """The GPU before this one, the nearest by number, that could stand for it."""
        gpu = self.free[place]
        return next((one for one in reversed(self.free[:place]) if self._are_twins(one, gpu)), None)

    def _are_twins(self, a: int, b: int) -> bool:
        return self.socket[a] == self.socket[b] and all(
            self.distance[a][one] == self.distance[b][one] for one in self.free if one not in (a, b)
        )
