"""Compiled: by how much fragmentation of GPUs (Weng et al., ATC 2023), and what will be stranded, grow with a task."""

from __future__ import annotations

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.resources.gpus.asks import WHOLE, Ask
from unrack.resources.gpus.columns import Gpus
from unrack.resources.gpus.fragmentation import Demands, fragments


@inlined
def stranded(left: Ints, cores: int, mb: int, demands: Demands) -> float:
    """What will be left of a machine's GPUs once tasks as they usually come have used up its cores or its memory."""
    total = 0
    for i in range(left.shape[0]):
        total += left[i]
    usable = float(total)
    if demands.per_gpu[0] > 0:
        usable = min(usable, WHOLE * cores / demands.per_gpu[0])
    if demands.per_gpu[1] > 0:
        usable = min(usable, WHOLE * mb / demands.per_gpu[1])
    return total - usable


@inlined
def strands(gpus: Gpus, free: Ints, cores: Ints, mb: Ints, demands: Demands, ask: Ask, node: int, tasks: int) -> float:
    """By how much that grows with tasks on it."""
    left = free[gpus.first[node] : gpus.first[node + 1]].copy()
    before = stranded(left, cores[node], mb[node], demands)
    total = ask.gpus * ask.milli * tasks
    for i in range(left.shape[0]):
        taken = min(left[i], total)
        left[i] -= taken
        total -= taken
    return stranded(left, cores[node] - ask.cores * tasks, mb[node] - ask.mb * tasks, demands) - before


@inlined
def shared_growth(gpus: Gpus, free: Ints, cores: Ints, demands: Demands, ask: Ask, node: int) -> float:
    """By how much F grows if a task gets its part of the GPU for which that is least."""
    _, after = part_with_least(gpus, free, cores[node] - ask.cores, demands, ask, node)
    return after - fragments(free[gpus.first[node] : gpus.first[node + 1]], cores[node], demands)


@inlined
def part_with_least(gpus: Gpus, free: Ints, cores: int, demands: Demands, ask: Ask, node: int) -> tuple[int, float]:
    """The place of the GPU that leaves least F, and that F; ``cores``: what is free once the task has its own."""
    first = gpus.first[node]
    left = free[first : gpus.first[node + 1]].copy()
    best, least = -1, 1e300
    for i in range(left.shape[0]):
        if left[i] < ask.milli:
            continue
        seen = False
        for j in range(i):
            seen = seen or left[j] == left[i]
        if seen:
            continue
        left[i] -= ask.milli
        found = fragments(left, cores, demands)
        left[i] += ask.milli
        if found < least - 1e-9:
            best, least = i, found
    return first + best, least


@inlined
def whole_growth(gpus: Gpus, free: Ints, cores: Ints, demands: Demands, ask: Ask, node: int, tasks: int) -> float:
    """By how much F grows if tasks get whole GPUs, or none."""
    left = free[gpus.first[node] : gpus.first[node + 1]].copy()
    before = fragments(left, cores[node], demands)
    wanted = ask.gpus * tasks
    for i in range(left.shape[0]):
        if wanted and left[i] == WHOLE:
            left[i] = 0
            wanted -= 1
    return fragments(left, cores[node] - ask.cores * tasks, demands) - before
