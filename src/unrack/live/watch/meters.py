"""The numbers that operators watch, in the form that Prometheus collects. Without its library nothing is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import unrack
from unrack.units import SECOND_US

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

LATENCIES_S = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    14_400.0,
    86_400.0,
)
"""Upper ends of the bins of latencies, from a command to a night in the queue."""
ROUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
MISSING = "nothing is counted: the library prometheus_client is not there; pip install 'unrack[live]'\n"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


DECIDED = {"decided-start": "start", "decided-resize": "change", "decided-requeue": "stop", "decided-reject": "reject"}
"""The driver's words for what a policy decides → the labels of decisions."""


class MeteredStep(StrEnum):
    """Steps from submission to start; each is measured from the one before it, ``TOTAL`` from the first to the last."""

    DECIDED = "submit_to_decided"
    RELEASED = "decided_to_released"
    STARTED = "released_to_started"
    TOTAL = "submit_to_started"


class Operation(StrEnum):
    """Operations of a fabric."""

    ATTACH = "attach"
    DETACH = "detach"
    STATE = "state"


class Meters:
    """What a live scheduler counts. All methods may be called from any thread, and cost microseconds.

    Labels are words of this file alone: nothing that a user wrote gets into them, and there are never more of them.

    Parameters
    ----------
    policy, partitions
        Told with the version, as ``unrack_build_info``.
    wanted
        False: count nothing, as where the library is not installed.
    name
        What people call the orchestrator.

    Examples
    --------
    >>> meters = Meters("easy", ["batch"])
    >>> meters.queue(waiting=3, running=2, foreign=1)
    >>> meters.turned({"start-failed": 1}, (), 0.002)
    """

    def __init__(
        self, policy: str = "", partitions: Iterable[str] = (), wanted: bool = True, name: str = "Slurm"
    ) -> None:
        self._registry: CollectorRegistry | None = None
        if not wanted:
            return
        try:
            import prometheus_client as prometheus
        except ModuleNotFoundError:
            return
        registry = self._registry = prometheus.CollectorRegistry(auto_describe=True)
        prometheus.ProcessCollector(registry=registry)
        self._text = prometheus.generate_latest

        def gauge(name: str, words: str, labels: Iterable[str] = ()) -> Any:
            return prometheus.Gauge(f"unrack_{name}", words, labels, registry=registry)

        def counter(name: str, words: str, labels: Iterable[str] = ()) -> Any:
            return prometheus.Counter(f"unrack_{name}", words, labels, registry=registry)

        def histogram(name: str, words: str, bins: Iterable[float], labels: Iterable[str] = ()) -> Any:
            return prometheus.Histogram(f"unrack_{name}", words, labels, registry=registry, buckets=tuple(bins))

        info = gauge("build_info", "1, with what is running.", ("version", "policy", "partitions"))
        info.labels(unrack.__version__, policy, ",".join(partitions)).set(1)
        self._jobs = gauge(
            "jobs", "Jobs: waiting and running ones of ours, and foreign ones that hold nodes.", ("state",)
        )
        self._decisions = counter("decisions_total", "Decisions of the policy that were carried out.", ("kind",))
        self._round_s = histogram("round_seconds", "Time that the policy took for a round.", ROUNDS_S)
        self._step_s = histogram("job_step_seconds", "Time from one step of a job to the next.", LATENCIES_S, ("step",))
        self._polls = counter("polls_total", f"Times that {name} was asked whether anything changed.", ("changed",))
        self._poll_s = histogram("read_seconds", f"Time that reading all of {name}'s state took.", ROUNDS_S)
        self._refused = counter("refused_orders_total", f"Orders that {name} refused.", ("order",))
        self._of_turns = {
            "start-failed": counter("failed_starts_total", "Jobs that were released and did not start."),
            "misread": counter("rejected_asks_total", "Jobs with a comment that could not be understood."),
            "policy-fault": counter(
                "policy_faults_total", "Times that the policy raised an error or answered wrongly."
            ),
        }
        self._unreachable = counter(f"{name.lower()}_unreachable_total", f"Times that {name} did not answer.")
        self._reachable = gauge(f"{name.lower()}_reachable", f"1 if {name} answered when it was last asked, else 0.")
        self._journal = gauge("journal_bytes", "Size of the journal on disk.")
        self._fabric_s = histogram("fabric_seconds", "Time of operations of the fabric.", LATENCIES_S, ("operation",))
        self._fabric_failed = counter("fabric_failures_total", "Operations of the fabric that failed.", ("operation",))
        for kind in DECIDED.values():
            self._decisions.labels(kind)
        for step in MeteredStep:
            self._step_s.labels(step)
        for operation in Operation:
            self._fabric_s.labels(operation)
            self._fabric_failed.labels(operation)
        for order in ORDERS:
            self._refused.labels(order)

    @property
    def counts(self) -> bool:
        """True if anything is counted: the library is there, and it is wanted."""
        return self._registry is not None

    def queue(self, waiting: int, running: int, foreign: int) -> None:
        """How many jobs wait, run, and hold nodes without being ours."""
        if self.counts:
            for state, count in (("waiting", waiting), ("running", running), ("foreign", foreign)):
                self._jobs.labels(state).set(count)

    def turned(self, counts: Mapping[str, int], steps: Iterable[Sequence[int]], round_s: float) -> None:
        """A turn of the driver.

        Parameters
        ----------
        counts
            What happened: words of the driver → how often.
        steps
            Of jobs after their first start was acknowledged: when they came, were decided, released and seen to run,
            µs. Clocks that jumped count as no time.
        round_s
            How long the policy took; 0: it was not asked.
        """
        if not self.counts:
            return
        if round_s:
            self._round_s.observe(round_s)
            for word, kind in DECIDED.items():
                self._decisions.labels(kind).inc(counts.get(word, 0))
        for word, counter in self._of_turns.items():
            counter.inc(counts.get(word, 0))
        for seen, decided, released, started in steps:
            times = {MeteredStep.DECIDED: decided - seen, MeteredStep.RELEASED: released - decided}
            times |= {MeteredStep.STARTED: started - released, MeteredStep.TOTAL: started - seen}
            for step, time_us in times.items():
                self._step_s.labels(step).observe(max(time_us / SECOND_US, 0.0))

    def looked(self, read_s: float | None) -> None:
        """The orchestrator was asked whether anything changed, and read if so, which took ``read_s``."""
        if self.counts:
            self._polls.labels("no" if read_s is None else "yes").inc()
            self._reachable.set(1)
            if read_s is not None:
                self._poll_s.observe(read_s)

    def unreachable(self) -> None:
        """The orchestrator did not answer."""
        if self.counts:
            self._unreachable.inc()
            self._reachable.set(0)

    def refused(self, word: str) -> None:
        """An order, or the step of one that is called so, was refused."""
        if self.counts:
            self._refused.labels(word if word in ORDERS else "other").inc()

    def journal(self, size_bytes: int) -> None:
        """How large the journal is now."""
        if self.counts:
            self._journal.set(size_bytes)

    def fabric(self, operation: Operation, seconds: float, failed: bool = False) -> None:
        """An operation of the fabric."""
        if self.counts:
            self._fabric_s.labels(Operation(operation)).observe(max(seconds, 0.0))
            if failed:
                self._fabric_failed.labels(Operation(operation)).inc()

    def text(self) -> bytes:
        """All numbers, as Prometheus reads them; empty if nothing is counted."""
        make: Callable[[Any], bytes] | None = getattr(self, "_text", None)
        return b"" if make is None else make(self._registry)


ORDERS = ("Place", "Release", "HoldBack", "RequeueHeld", "Lengthen", "other")
"""Labels of orders: the classes of :mod:`unrack.live.slurm.orders`, and any other."""
