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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unrack.cluster.spec import Cluster
    from unrack.cluster.systems import memory_system
    from unrack.errors import ClusterError, InputError, PolicyError, RunError, StudyError, TraceError, UnrackError
    from unrack.metric.bound import Bound
    from unrack.metric.table import Metric
    from unrack.plan.ask import Planned, plan_study
    from unrack.policy.table import Entry
    from unrack.policy.tiers.answer import PlacedServers
    from unrack.policy.tiers.place import place
    from unrack.report.charts.compare import compare
    from unrack.sim.audited import audit
    from unrack.sim.faults.fault import Fault, random_faults
    from unrack.sim.result import Result
    from unrack.sim.simulate import simulate
    from unrack.sim.world import World
    from unrack.slowdown.model import make_models
    from unrack.solver.torus.solve import best_tiles, first_fit_tiles, quick_tiles
    from unrack.workload.filters import filtered
    from unrack.workload.formats.readers import read_trace
    from unrack.workload.formats.writers import write_trace
    from unrack.workload.generate.generator import generate
    from unrack.workload.generate.scenarios import scenario
    from unrack.workload.generate.server_generator import servers
    from unrack.workload.ideal import fat_node, load_factor, window_us
    from unrack.workload.job import Demand, Job, Workload

__version__: str

_HOMES = {
    "Cluster": "cluster.spec",
    "memory_system": "cluster.systems",
    "Bound": "metric.bound",
    "audit": "sim.audited",
    "PlacedServers": "policy.tiers.answer",
    "best_tiles": "solver.torus.solve",
    "compare": "report.charts.compare",
    "first_fit_tiles": "solver.torus.solve",
    "make_models": "slowdown.model",
    "place": "policy.tiers.place",
    "plan_study": "plan.ask",
    "Planned": "plan.ask",
    "quick_tiles": "solver.torus.solve",
    "servers": "workload.generate.server_generator",
    "window_us": "workload.ideal",
    "load_factor": "workload.ideal",
    "fat_node": "workload.ideal",
    "scenario": "workload.generate.scenarios",
    "ClusterError": "errors",
    "Demand": "workload.job",
    "Fault": "sim.faults.fault",
    "InputError": "errors",
    "Job": "workload.job",
    "PolicyError": "errors",
    "Result": "sim.result",
    "RunError": "errors",
    "StudyError": "errors",
    "TraceError": "errors",
    "UnrackError": "errors",
    "Workload": "workload.job",
    "World": "sim.world",
    "filtered": "workload.filters",
    "generate": "workload.generate.generator",
    "random_faults": "sim.faults.fault",
    "read_trace": "workload.formats.readers",
    "simulate": "sim.simulate",
    "write_trace": "workload.formats.writers",
}

__all__ = [
    "Bound",
    "Cluster",
    "ClusterError",
    "Demand",
    "Fault",
    "InputError",
    "Job",
    "PlacedServers",
    "Planned",
    "PolicyError",
    "Result",
    "RunError",
    "StudyError",
    "TraceError",
    "UnrackError",
    "Workload",
    "World",
    "audit",
    "best_tiles",
    "compare",
    "fat_node",
    "filtered",
    "first_fit_tiles",
    "generate",
    "load_factor",
    "make_models",
    "memory_system",
    "metrics",
    "place",
    "plan_study",
    "policies",
    "quick_tiles",
    "random_faults",
    "read_trace",
    "scenario",
    "servers",
    "simulate",
    "window_us",
    "write_trace",
]


def metrics() -> dict[str, Metric]:
    """Every metric: name → unit, which way is better, one line of words, formula."""
    from unrack.metric.table import METRICS

    return dict(METRICS)


def policies() -> dict[str, Entry]:
    """Every built-in policy: name → one line of words and its parameters."""
    from unrack.policy.table import POLICIES

    return dict(POLICIES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("unrack")
    if name in _HOMES:
        return getattr(import_module(f"unrack.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'unrack' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
