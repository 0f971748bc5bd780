"""Which CPUs a command gets: some beside its GPUs that no other command holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from unrack.reasons import Code, Reason
from unrack.resources.gpus.machines.machine import Machine


def choose_cores(
    machine: Machine,
    gpus: Sequence[int],
    wanted: int | None = None,
    held: Collection[int] = (),
    usable: Collection[int] | None = None,
) -> tuple[int, ...] | Reason:
    """CPUs of the sockets of some GPUs, ascending; none where the machine's CPUs are not known.

    Parameters
    ----------
    machine, gpus
        The machine, and GPUs of it by number.
    wanted
        How many; default: of each socket the share that its GPUs among these are of all its GPUs, rounded down, and as
        many of them as are free.
    held
        CPUs that others hold.
    usable
        CPUs that this process may use; default: all.

    Returns
    -------
    tuple of int, or Reason
        Too few are free, or there.
    """
    homes = [int(machine.socket[gpu]) for gpu in gpus]
    if not machine.cores:
        return ()
    present = {
        home: [core for core in machine.cores[home] if usable is None or core in usable] for home in sorted(set(homes))
    }
    free = {home: [core for core in cores if core not in held] for home, cores in present.items()}
    there, left = sum(map(len, present.values())), sum(map(len, free.values()))
    what = f"CPUs of {', '.join(machine.vertices[machine.sockets[home]].name for home in present)}"
    if wanted is not None and wanted > there:
        return Reason(Code.TOO_BIG, what, wanted, there)
    if wanted is not None:
        if wanted > left:
            return Reason(Code.NO_ROOM, what, wanted, left)
        return tuple(sorted(_in_turns(list(free.values()), [homes.count(home) for home in free], wanted)))
    if there and not left:
        return Reason(Code.NO_ROOM, what, 1, 0)
    shares = {home: max(1, len(present[home]) * homes.count(home) // _gpus_on(machine, home)) for home in free}
    return tuple(sorted(core for home, cores in free.items() for core in cores[: shares[home]]))


def _gpus_on(machine: Machine, home: int) -> int:
    return int((machine.socket == home).sum())


def _in_turns(free: list[list[int]], weights: list[int], wanted: int) -> list[int]:
    """So many in all: of each list as its weight says, and what one lacks of the others."""
    total = sum(weights)
    taken = [min(len(cores), wanted * weight // total) for cores, weight in zip(free, weights, strict=True)]
    while sum(taken) < wanted:
        place = next(i for i, cores in enumerate(free) if taken[i] < len(cores))
        taken[place] += 1
    return [core for cores, count in zip(free, taken, strict=True) for core in cores[:count]]
