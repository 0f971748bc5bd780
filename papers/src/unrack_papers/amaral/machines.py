"""Minsky machines, the thesis's policies on them, and what is kept of a run there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack import Cluster, Result
from unrack_papers.reproduction import Numbers, Row

PAPER = "Amaral 2019"
GPUS = 4
"""Of a machine."""
MACHINE = {"cores": 16, "memory": "512 GB"}
NO_LIMIT = "patience=10000 d"
"""The thesis lets jobs wait for a good place for as long as it takes."""
BEST_FIT = Row("BF", "list(gpus=best-fit, backfill=none)", "minsky")
FCFS = Row("FCFS", "list(gpus=first-fit, backfill=none)", "minsky")
AWARE = Row("TOPO-AWARE", "topo-aware", "minsky")
POSTPONING = Row("TOPO-AWARE-P", f"topo-aware-p({NO_LIMIT})", "minsky")
EXACT = Row("Topology", "topo-aware(gpus=topology)", "minsky", printed=False)
EXACT_POSTPONING = Row("Topology-P", f"topo-aware-p(gpus=topology, {NO_LIMIT})", "minsky", printed=False)
ROWS = (BEST_FIT, FCFS, AWARE, POSTPONING, EXACT, EXACT_POSTPONING)
NAMES = [row.name for row in ROWS]
PARTS = 20
"""Jobs ordered by slowdown are looked at in so many equal steps."""
STEPS = [round(100 * i / PARTS) for i in range(PARTS + 1)]
RUNNING, WAITING = "running", "waiting and running"


OWN_ROWS = (
    "Topology and Topology-P are ours: the same two policies with the placement of greatest utility, found by looking "
    "at all of them in place of bi-partitioning."
)
OF_THE_TEXT = (
    "Without --times, run times follow from the few that the text prints (70 s for AlexNet with batches of 1; "
    "computing and communicating by batch size, section 3.2.3), equal for all networks and numbers of GPUs; and "
    "factors for GPUs at two sockets and for neighbours are the built-in profiles `deep-learning`. With --times both "
    "are of the file, and CaffeRef is taken to be AlexNet."
)
UTILITY = (
    "The text's equation 2 rewards interference and has no upper bound for fragmentation; ours is the mean of 1/t, I "
    "and 1 - w, each between 0 and 1. Least utilities are compared with it as they are printed."
)


def minsky(count: int, profiles: str) -> Cluster:
    """So many machines of two sockets with two GPUs each."""
    content: dict[str, Any] = {
        "nodes": [{"count": count, **MACHINE}],
        "gpus": {"machine": "minsky", "profiles": profiles},
    }
    return Cluster.from_dict({"name": "minsky", **content}, "reproduction")


def slowdowns(result: Result) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float64[jobs] twice: time running, and waiting and running, over the best run time; greatest first."""
    best = result.jobs["work_s"].to_numpy()
    running = np.sort(result.jobs["run_s"].to_numpy() / best)[::-1]
    return running, np.sort(result.jobs["response_s"].to_numpy() / best)[::-1]


def numbers_of(result: Result) -> Numbers:
    """What is kept of a run: its metrics, mean slowdowns, and the slowdown at each of ``STEPS``."""
    values: Numbers = dict(result.metrics)
    for name, found in zip((RUNNING, WAITING), slowdowns(result), strict=True):
        values[f"{name}.mean"] = float(found.mean())
        values[f"{name}.slowed"] = float((found > 1.001).mean())
        at = np.round(np.linspace(0, len(found) - 1, PARTS + 1)).astype(np.int64)
        values |= {f"{name}.{step}": float(one) for step, one in zip(STEPS, found[at], strict=True)}
    return values
