"""Profiles by formula, for those who have no measurements: plausible, and of no machine in particular.

``python tests/contention/synthetic_formula.py`` writes the set that comes with unrack. Only sums, products and
quotients of seeded numbers, so that it comes out the same everywhere.

The formula. An application draws d MB/s and is bound by memory for a share m of its time. Interfering traffic of x
MB/s, with a controller that sustains B MB/s at the traffic's read share, stretches the time in memory by the factor
1 + w, w = 1.6 h / (1 + h), h = x (B + d) / B²: linear at first and saturating, worse for whoever draws more. Hence
speed = 1 / (1 + m w). Each node under interference adds to the worst of them: w grows by up to an eighth with their
share. Remote memory stretches by λ + d / L (latency, and the link's bandwidth L) to start with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.slowdown.contention.profile import READS, Curve, Profile, ProfileSet
from unrack.slowdown.contention.profile_file import SYNTHETIC, write_profiles

SEED = 2023
SUSTAINED_MB_S = {50: 80_000.0, 100: 100_000.0}
"""What the memory controller sustains at a read share."""

LINK_MB_S = 40_000.0
LATENCY = 0.35
NODES = (1, 4, 32)
NOISE = 0.004


class Kind(NamedTuple):
    """An application by what it does: share of time bound by memory, MB/s, reads %, run time s, MB a node."""

    name: str
    bound: float
    local_mb_s: float
    reads: float
    run_s: float
    memory_mb: int


KINDS = (
    Kind("montecarlo", 0.004, 60.0, 55.0, 900.0, 800),
    Kind("rendering", 0.01, 450.0, 85.0, 1500.0, 3_000),
    Kind("docking", 0.02, 900.0, 70.0, 600.0, 1_200),
    Kind("dynamics", 0.05, 2_800.0, 65.0, 2400.0, 2_000),
    Kind("assembly", 0.10, 4_500.0, 80.0, 3600.0, 48_000),
    Kind("climate", 0.16, 14_000.0, 70.0, 5400.0, 12_000),
    Kind("combustion", 0.22, 20_000.0, 65.0, 7200.0, 16_000),
    Kind("multigrid", 0.30, 32_000.0, 75.0, 1200.0, 24_000),
    Kind("graph", 0.38, 24_000.0, 95.0, 800.0, 56_000),
    Kind("spectral", 0.45, 44_000.0, 60.0, 2000.0, 30_000),
    Kind("sparse", 0.55, 60_000.0, 90.0, 1000.0, 20_000),
    Kind("copying", 0.62, 76_000.0, 52.0, 300.0, 6_000),
)


def make_profiles(seed: int = SEED) -> ProfileSet:
    """The synthetic set: twelve applications, from insensitive to very sensitive, at three sizes.

    Parameters
    ----------
    seed
        Of the noise on each measured speed, ± 0.4 %.
    """
    random = np.random.default_rng(seed)

    def noisy(speed: float) -> float:
        return round(speed * (1.0 + NOISE * (2.0 * float(random.random()) - 1.0)), 6)

    profiles, curves = [], []
    for app, kind in enumerate(KINDS):
        for nodes in NODES:
            thinner = 1.0 - 0.1 * (nodes - 1) / (nodes + 7)  # more communication: less of the time in memory
            bound, drawn = kind.bound * thinner, round(kind.local_mb_s * thinner, 1)
            far = LATENCY + drawn / LINK_MB_S
            alone = noisy(1.0 / (1.0 + bound * far))
            run_s = round(kind.run_s * (1.0 + 0.05 * (nodes - 1) / (nodes + 3)), 1)
            remote_mb_s = round(drawn * alone, 1)
            profiles.append(
                Profile(app, kind.name, nodes, run_s, kind.memory_mb, remote_mb_s, drawn, kind.reads, min(alone, 1.0))
            )
            for reads in READS:
                link = 0.5 * SUSTAINED_MB_S[reads]
                loads = [round(link * part, 1) for part in (0.2, 0.4, 0.6, 0.8, 1.0)]
                for count in sorted({1, nodes // 2, nodes} - {0}):
                    near = [(x, noisy(1.0 / (1.0 + bound * stretch(x, drawn, reads, count, nodes)))) for x in loads]
                    curves.append(Curve(app, nodes, reads, count, False, ((0.0, 1.0), *near)))
                    worst = SUSTAINED_MB_S[reads]
                    both = far + 1.5 * stretch(worst, drawn, reads, count, nodes)
                    ends = ((0.0, min(alone, 1.0)), (worst, noisy(1.0 / (1.0 + bound * both))))
                    curves.append(Curve(app, nodes, reads, count, True, ends))
    return ProfileSet(tuple(profiles), tuple(curves))


def stretch(x: float, drawn: float, reads: int, count: int, nodes: int) -> float:
    """By how much interfering traffic of ``x`` MB/s on ``count`` of ``nodes`` nodes stretches the time in memory."""
    sustained = SUSTAINED_MB_S[reads]
    load = x * (sustained + drawn) / (sustained * sustained)
    return 1.6 * load / (1.0 + load) * (1.0 + 0.125 * (count - 1) / max(nodes - 1, 1))


if __name__ == "__main__":
    write_profiles(make_profiles(), SYNTHETIC)
