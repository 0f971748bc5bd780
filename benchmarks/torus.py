"""How fast the least sum of distances of tiles of a torus is proven, beside the targets and the paper's times.

    python benchmarks/torus.py [--seeds 100] [--large] [--cp]

Prints the twelve empty tori of the paper's Table 4; each target with its worst time over seeds of taken tiles, how much
of the target that is, and how many answers are proven, with how often and by how much the heuristic is above the least;
and patterns of taken tiles that are hard on purpose. With --large tori up to 16 x 16 with 10 s each: what is proven,
and the gap of the others. With --cp the constraint programme on the first seed of each target, at most 60 s each. The
first use compiles the kernels: that run is not counted.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from unrack_papers.torus.solve import TorusPlacement, best_tiles, quick_tiles

sys.path.insert(0, str(Path(__file__).parents[1] / "papers" / "tests" / "torus"))
from torus_programme import cp_tiles

PAPER_S = {
    4: (0.0002, 0.0179, 350.6222),
    5: (0.0002, 0.0354, 6956.73),
    6: (0.0002, 0.0550, 19795.42),
    7: (0.0002, 0.0795, 39298.74),
}
"""Table 4: seconds for 2, 4 and 8 tiles of an empty torus of so many rows and columns."""
TARGETS = ((7, 8, 0, 0.010), (8, 12, 21, 2.0), (8, 16, 20, 30.0))
"""Rows and columns, tiles to choose, tiles taken, seconds."""
LARGE = ((8, 24, 21), (8, 32, 21), (10, 16, 33), (12, 16, 48), (12, 32, 48), (16, 16, 85), (16, 32, 85), (16, 64, 64))
EVERY = [(i, j) for i in range(8) for j in range(8)]
PATTERNS = {
    "checkerboard": [(i, j) for i, j in EVERY if (i + j) % 2],
    "lattice": [(i, j) for i, j in EVERY if i % 2 == j % 2 == 0],
    "lattice and four": [(i, j) for i, j in EVERY if i % 2 == j % 2 == 0 or (i % 4 == j % 4 == 1)],
    "diagonals": [(i, j) for i, j in EVERY if (j - i) % 4 == 0],
    "knight's moves": [(i, j) for i, j in EVERY if (j - 2 * i) % 8 in (0, 3, 5)][:20],
    "half a checkerboard": [(i, j) for i, j in EVERY if (i + j) % 2 and i < 5],
    "sparse checkerboard": [(i, j) for i, j in EVERY if (i + j) % 2 and (i + 2 * j) % 3],
    "rows": [(i, j) for i, j in EVERY if i in (0, 3, 6)][:20],
    "columns": [(i, j) for i, j in EVERY if j in (0, 3, 6)][:20],
    "one block": [(i, j) for i, j in EVERY if i < 4 and j < 5],
    "four blocks": [(i, j) for i, j in EVERY if i % 4 < 2 and j % 4 < 2] + [(0, 2), (0, 6), (4, 2), (4, 6)],
    "cross": [(i, j) for i, j in EVERY if i in (0, 4) or j in (0, 4)][:20],
}


def timed(side: int, k: int, taken: list[int], limit_s: float | None = None) -> tuple[float, TorusPlacement]:
    """Wall seconds and the answer."""
    start = time.perf_counter()
    placement = best_tiles(side, side, k, taken, limit_s=limit_s)
    return time.perf_counter() - start, placement


def drawn(side: int, count: int, seed: int) -> list[int]:
    """Taken tiles at random."""
    return random.Random(seed).sample(range(side * side), count)


def table_4() -> None:
    """The paper's empty tori."""
    print("Table 4: empty torus, tiles, the paper's s, ours (least of 5), paper / ours")
    for side, paper in PAPER_S.items():
        for k, paper_s in zip((2, 4, 8), paper, strict=True):
            took, best = min((timed(side, k, []) for _ in range(5)), key=lambda pair: pair[0])
            print(f"  {side} x {side}  {k}  {paper_s:11.4f}  {took:.6f}  {paper_s / took:14,.1f}", end="  ")
            print(f"{best.distance:4}  optimal {best.optimal}", flush=True)


def targets(seeds: int, with_cp: bool) -> None:
    """Worst and mean times over seeds, and the heuristic beside them."""
    for side, k, count, target_s in TARGETS:
        runs = [(*timed(side, k, drawn(side, count, seed)), drawn(side, count, seed)) for seed in range(seeds)]
        worst, mean = max(took for took, _, _ in runs), sum(took for took, _, _ in runs) / seeds
        proven = sum(best.optimal for _, best, _ in runs)
        print(f"{k} of {side} x {side}, {count} taken, {seeds} seeds: worst {1e3 * worst:.2f} ms,", end=" ")
        print(
            f"{worst / target_s:.4f} of the target ({target_s} s); mean {1e3 * mean:.2f} ms; proven {proven}",
            flush=True,
        )
        start = time.perf_counter()
        quick = [quick_tiles(side, side, k, taken) for _, _, taken in runs]
        took = (time.perf_counter() - start) / seeds
        above = [near.distance / best.distance - 1 for near, (_, best, _) in zip(quick, runs, strict=True)]
        shown = [near.distance / near.bound - 1 for near in quick]
        print(f"  heuristic: {1e3 * took:.3f} ms; above the least {sum(x > 0 for x in above)} times, at most", end=" ")
        print(f"{max(above):.2%}; gap to its own bound at most {max(shown):.1%}", flush=True)
        if with_cp:
            start = time.perf_counter()
            reference = cp_tiles(side, side, k, runs[0][2], limit_s=60)
            took = time.perf_counter() - start
            print(f"  CP-SAT: {took:.2f} s, {took / runs[0][0]:,.0f} x ours;", end=" ")
            print(f"{reference.distance}, bound {reference.bound}", flush=True)


def patterns() -> None:
    """Taken tiles that leave the bounds little to hold on to."""
    worst = []
    for name, cells in PATTERNS.items():
        for k in (8, 12, 16):
            took, best = timed(8, k, [8 * i + j for i, j in cells])
            worst.append((took, name, len(cells), k, best.nodes, best.optimal))
    for took, name, count, k, nodes, optimal in sorted(worst, reverse=True)[:6]:
        print(f"{k} of 8 x 8, {name} ({count} taken): {1e3 * took:.1f} ms, {nodes:,} nodes, optimal {optimal}")


def large(limit_s: float) -> None:
    """Bigger tori with a time limit."""
    for side, k, count in LARGE:
        runs = [timed(side, k, drawn(side, count, seed), limit_s) for seed in range(3)]
        gap = max(best.distance / best.bound - 1 for _, best in runs)
        proven = sum(best.optimal for _, best in runs)
        worst = max(took for took, _ in runs)
        print(
            f"{k} of {side} x {side}, {count} taken: worst {worst:.2f} s, proven {proven} of 3, gap {gap:.1%}",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--cp", action="store_true")
    chosen = parser.parse_args()
    timed(6, 7, list(range(0, 36, 2)))
    quick_tiles(6, 6, 7)
    table_4()
    targets(chosen.seeds, chosen.cp)
    patterns()
    if chosen.large:
        large(10.0)


if __name__ == "__main__":
    main()
