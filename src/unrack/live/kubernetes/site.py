"""The site file of a Kubernetes: what its scheduler may do, and how: ``docs/kubernetes.md``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PrivateAttr

from unrack.live.driver.service.tables import ServiceTable, SitePath, time_between
from unrack.live.kubernetes.adapter.terms import Added
from unrack.live.kubernetes.added import OWN_MEMORY, refuse_lending
from unrack.live.kubernetes.devices.store import AT_ONCE
from unrack.live.kubernetes.leading import Lease
from unrack.live.kubernetes.remote.table import SERVER_PODS, ServerPods
from unrack.policy.file import complete
from unrack.resources.checked import Strict
from unrack.study.input.inputs import Document
from unrack.units import SECOND_US

_UNKEPT = "molding", "resizing", "extension"


class ElectionTable(Strict):
    """The ``[election]`` table: of several replicas one schedules, the one that holds a Lease."""

    # the namespace and name of the Lease, which all replicas share; each has a state folder of its own
    lease: str = Field(default="kube-system/unrack", pattern=r"^[a-z0-9][a-z0-9-]{0,62}/[a-z0-9][a-z0-9.-]{0,251}$")
    # another replica takes over when the one that holds it has not renewed it for so long
    duration_us: Annotated[int, time_between(2, 3600)] = Field(default=15 * SECOND_US, alias="duration")

    @property
    def of(self) -> Lease:
        """The Lease."""
        namespace, _, name = self.lease.partition("/")
        return Lease(namespace, name, round(self.duration_us / SECOND_US))


class KubernetesSite(ServiceTable):
    """A whole site file; made by :meth:`load`."""

    # the schedulerName of the pods that it schedules; of others it sees what they hold, and touches nothing
    scheduler: str = Field(default="unrack", pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")
    # kubeconfig, context: how the server is reached; by default as ``kubectl`` does, or as the pod that this is
    kubeconfig: SitePath | None = None
    context: str | None = Field(default=None, max_length=253)
    # how long a pod is expected to run that says nothing of it
    longest_us: Annotated[int, time_between(1, 10 * 365 * 86_400)] = Field(
        default=7 * 86_400 * SECOND_US, alias="longest"
    )
    # how long an answer of the server may take
    timeout_us: Annotated[int, time_between(0.1, 600)] = Field(default=30 * SECOND_US, alias="timeout")
    # devices that the composer attaches at a time behind a switch: where more are under way, others are chosen
    at_once: Annotated[int, Field(ge=1, le=64, strict=True)] = AT_ONCE
    election: ElectionTable | None = None  # default: there is one replica
    # what the server tells is known at once: to look costs nothing
    poll_us: Annotated[int, time_between(0.05, 60)] = Field(default=SECOND_US // 20, alias="poll")
    poll_slowest_us: Annotated[int, time_between(0.05, 3600)] = Field(default=SECOND_US // 10, alias="poll_slowest")

    _servers: ServerPods | None = PrivateAttr(default=None)

    @property
    def added(self) -> Added:
        """What it says of pods and nodes beyond what Kubernetes does."""
        return Added(self.longest_us, self.additions, self.performance_models, self._servers, self.at_once)

    def _check(self, document: Document) -> None:
        self._take_cluster(document)
        refuse_lending(self.cluster, document)
        if self.fabric["kind"] == SERVER_PODS:
            self._servers = ServerPods.of(document)
            if self.cluster.get("pools"):
                raise document.fault(("cluster", "pools"), "this key", f"none: the GPUs of {SERVER_PODS} are the pool")
        elif self.fabric != {"kind": "none"}:
            raise document.fault(("fabric", "kind"), repr(self.fabric["kind"]), f"'none' or '{SERVER_PODS}'")
        self._take_policy(document, _UNKEPT, "none of it: pods have one size, and no limit that could be raised")
        if complete(self.policy_spec.make(), "policy").traits.lends:
            raise document.fault(("policy",), repr(self.policy), f"a policy that lends none: {OWN_MEMORY}")
        if self.metrics.stalled_after_us < 2 * self.timeout_us:
            got = f"a timeout of {self.timeout_us / SECOND_US:g} s"
            raise document.fault(("timeout",), got, "half of metrics.stalled_after at most")
