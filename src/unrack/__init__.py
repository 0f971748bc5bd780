"""Scheduling for disaggregated data centres: simulate, plan, run, reproduce.

>>> import unrack
>>> service = {"run_s": {"kind": "exponential", "mean": 60}}
>>> workload = unrack.generate({"jobs": 50, "arrivals": {"load": 0.9, "cores": 8}, "classes": [service]}, seed=1)
>>> cluster = unrack.Cluster.homogeneous(nodes=8, cores=1)
>>> result = unrack.simulate(cluster, workload, policy="easy")
>>> int(result.metrics["jobs_finished"])
50

Names are loaded when they are first used, so that ``import unrack`` costs little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.cluster.spec import Cluster as Cluster
    from unrack.cluster.systems import memory_system as memory_system
    from unrack.errors import ClusterError as ClusterError
    from unrack.errors import InputError as InputError
    from unrack.errors import PolicyError as PolicyError
    from unrack.errors import RunError as RunError
    from unrack.errors import StudyError as StudyError
    from unrack.errors import TraceError as TraceError
    from unrack.errors import UnrackError as UnrackError
    from unrack.metric.bound import Bound as Bound
    from unrack.metric.estimate import Estimate as Estimate
    from unrack.metric.estimate import estimate as estimate
    from unrack.metric.holdings import Metric
    from unrack.plan.ask import Planned as Planned
    from unrack.plan.ask import plan_study as plan_study
    from unrack.policy.table import PolicyEntry
    from unrack.report.charts.compare import compare as compare
    from unrack.sim.faults import Fault as Fault
    from unrack.sim.faults import random_faults as random_faults
    from unrack.sim.result import Result as Result
    from unrack.sim.result import audit as audit
    from unrack.sim.simulate import simulate as simulate
    from unrack.sim.world import Ties as Ties
    from unrack.sim.world import World as World
    from unrack.slowdown.model import make_models as make_models
    from unrack.workload.filters import filtered as filtered
    from unrack.workload.formats.readers import read_trace as read_trace
    from unrack.workload.formats.writers import write_trace as write_trace
    from unrack.workload.generate.generator import generate as generate
    from unrack.workload.ideal import fat_node as fat_node
    from unrack.workload.ideal import load_factor as load_factor
    from unrack.workload.ideal import window_us as window_us
    from unrack.workload.job import Demand as Demand
    from unrack.workload.job import Job as Job
    from unrack.workload.job import Workload as Workload

    __version__: str
else:
    __all__, _loaded, __dir__ = lazily(__name__, "metrics", "policies")

    _MOVED = dict.fromkeys(("place", "PlacedServers"), "servers")
    _MOVED["servers"] = "workloads.server_generator"
    _MOVED |= dict.fromkeys(("best_tiles", "first_fit_tiles", "quick_tiles"), "torus")

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("unrack")
        if name in _MOVED:
            where = f"unrack_papers.{_MOVED[name]}.{name} (pip install 'unrack[papers]')"
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it is {where}")
        return _loaded(name)


def metrics() -> dict[str, Metric]:
    """Every metric: name → unit, which way is better, one line of words, formula."""
    from unrack.metric.table import METRICS

    return dict(METRICS)


def policies() -> dict[str, PolicyEntry]:
    """Every built-in policy: name → one line of words and its parameters."""
    from unrack.policy.table import POLICIES

    return dict(POLICIES)
