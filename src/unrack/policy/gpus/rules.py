"""The rules for GPUs by name."""

from __future__ import annotations

NEAREST = "nearest"
(
    FIRST_FIT, BEST_FIT, WORST_FIT, PACK, SPREAD, RANDOM, DRB, TOPOLOGY, FGD, DOT_PRODUCT, CLUSTERING, PACKING,
    LEAST_LEFT, FORESIGHT, PACKING_AS_AUTHORS, CLUSTERING_AS_AUTHORS,
) = range(16)  # fmt: skip
RULES = {
    "first-fit": FIRST_FIT,
    "best-fit": BEST_FIT,
    "worst-fit": WORST_FIT,
    "pack": PACK,
    "spread": SPREAD,
    "random": RANDOM,
    "drb": DRB,
    "topology": TOPOLOGY,
    "fgd": FGD,
    "dot-product": DOT_PRODUCT,
    "clustering": CLUSTERING,
    "packing": PACKING,
    "least-left": LEAST_LEFT,
    "foresight": FORESIGHT,
    "packing-as-authors": PACKING_AS_AUTHORS,
    "clustering-as-authors": CLUSTERING_AS_AUTHORS,
}
"""Name → its number in kernels.

``first-fit``: the first machine and its first GPUs. ``best-fit``: the machine with fewest free GPUs, its fullest
sockets first. ``worst-fit``: the machine with most free GPUs. ``pack``: as best-fit, GPUs as near to each other as can
be. ``spread``: the machine with most free GPUs, over its sockets. ``random``: any that fit. ``drb``: dual recursive
bi-partitioning by utility (Amaral 2019, Alg. 2 and 3). ``topology``: the placement of greatest utility, found exactly.
``fgd``: where fragmentation grows least (Weng et al. 2023). ``dot-product``, ``clustering``, ``packing`` and
``least-left`` (best fit over all that a machine has): those it is compared with there. ``foresight``: where that and
what a machine will strand grow least (unrack's own). ``packing-as-authors`` and ``clustering-as-authors``: with
the marks of the authors' plug-ins (:mod:`unrack.policy.gpus.as_authors`).
"""
BY_KIND = (CLUSTERING, CLUSTERING_AS_AUTHORS)
"""Rules that look for jobs of the same kind."""
BY_DEMANDS = (FGD, FORESIGHT)
"""Rules that look at what jobs usually ask."""
WORDS = ", ".join([NEAREST, *RULES])
