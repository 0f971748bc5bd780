"""Small sets of profiles whose speeds can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.slowdown.contention.profile import Curve, Profile, ProfileSet

Slopes = dict[tuple[int, int, bool, int], float]


def profile(app: int, nodes: int = 1, q: float = 0.8, **changes: object) -> Profile:
    """A profile with plain numbers, changed where asked."""
    return Profile(app, f"app{app}", nodes, 100.0, 1000, 500.0, 1000.0, 75.0, q)._replace(**changes)  # type: ignore[arg-type]


def straight(app: int, nodes: int, reads: int, count: int, drop: float, start: float = 1.0, *, remote: bool = False,
             top: float = 1000.0) -> Curve:  # fmt: skip
    """A straight curve that loses ``drop`` by ``top`` MB/s; local ones with a point half-way."""
    half = [] if remote else [(top / 2, start - drop / 2)]
    return Curve(app, nodes, reads, count, remote, ((0.0, start), *half, (top, start - drop)))


def pair(app: int, nodes: int, count: int, drops: tuple[float, float], far: tuple[float, float] | None = None,
         q: float = 0.8) -> list[Curve]:  # fmt: skip
    """Local curves for 50 and 100 % reads that lose ``drops`` by 1000 MB/s; remote ones too, from ``q``, if asked."""
    curves = [straight(app, nodes, reads, count, drop) for reads, drop in zip((50, 100), drops, strict=True)]
    for reads, drop in zip((50, 100), far or (), strict=False):
        curves.append(straight(app, nodes, reads, count, drop, q, remote=True))
    return curves


def worked() -> ProfileSet:
    """Application 5 on 1, 4 and 8 nodes, with q 0.8, 0.7, 0.5; application 9 without curves."""
    curves = [
        *pair(5, 1, 1, (0.20, 0.10), (0.40, 0.20), 0.8),
        *pair(5, 4, 1, (0.10, 0.06), (0.20, 0.10), 0.7),
        *pair(5, 4, 4, (0.40, 0.20), (0.30, 0.20), 0.7),
        *pair(5, 8, 1, (0.20, 0.10), (0.20, 0.10), 0.5),
        *pair(5, 8, 8, (0.60, 0.40), (0.40, 0.30), 0.5),
    ]
    profiles = [profile(5, 1, 0.8), profile(5, 4, 0.7, remote_mb_s=300.0), profile(5, 8, 0.5, reads=85.0)]
    return ProfileSet((*profiles, profile(9, 4, 0.9)), tuple(curves))


def drawn(seed: int, apps: int = 4, sizes: Sequence[int] = (1, 3, 10)) -> ProfileSet:
    """A random set: noisy curves, some speeds above 1, some applications without curves or without remote ones."""
    random = np.random.default_rng(seed)
    profiles, curves = [], []
    for app in range(apps):
        for nodes in sizes[: 1 + int(random.integers(len(sizes)))]:
            q = round(float(random.uniform(0.3, 1.05)), 3)
            profiles.append(profile(3 * app, nodes, q, run_s=float(random.integers(1, 500)),
                                    local_mb_s=float(random.integers(1, 9000)), reads=float(random.integers(50, 101)),
                                    remote_mb_s=float(random.integers(1, 5000))))  # fmt: skip
            if app % 3 == 2:
                continue
            for reads in (50, 100):
                for count in sorted({1, (nodes + 1) // 2, nodes}):
                    xs = sorted({0.0, *(float(x) for x in random.integers(1, 20000, 4))})
                    ys = [1.0, *(float(y) for y in random.uniform(0.4, 1.05, len(xs) - 1))]
                    curves.append(Curve(3 * app, nodes, reads, count, False, tuple(zip(xs, ys, strict=True))))
                    if app % 3 == 0:
                        ends = ((0.0, min(q, 1.0)), (30000.0, q * float(random.uniform(0.3, 1.0))))
                        curves.append(Curve(3 * app, nodes, reads, count, True, ends))
    return ProfileSet(tuple(profiles), tuple(curves))
