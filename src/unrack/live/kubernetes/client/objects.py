"""Objects of Kubernetes with the few fields that are read; the others are skipped, which is where the time would go.

Names are those of the API in lower case with underscores; what an object does not say is empty, 0 or ``None``. Amounts
and times are text (``quantity`` and ``moment_s`` of :mod:`unrack.kubernetes_text`), and what is seldom there is
tables as they came.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from msgspec import Struct, field


class ObjectPart(Struct, rename="camel", frozen=True, gc=False, omit_defaults=True):
    """An object, or a part of one."""


class Owner(ObjectPart, frozen=True):
    """What made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(ObjectPart, frozen=True):
    """What all objects have."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None  # it is being ended, until then at the latest
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Owner] = []
    finalizers: list[str] = []


class Resources(ObjectPart, frozen=True):
    """Amounts that a container, or a whole pod, asks for, and may have."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class Container(ObjectPart, frozen=True):
    """A container of a pod; one that begins first and goes on beside the others has the restart policy Always."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""
    ports: list[dict[str, Any]] = []


class PodSpec(ObjectPart, frozen=True):
    """What a pod asks for, and the node that it is bound to."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: dict[str, str] = {}
    resources: Resources = Resources()
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] = {}
    tolerations: list[dict[str, Any]] = []
    topology_spread_constraints: list[dict[str, Any]] = []
    scheduling_gates: list[dict[str, Any]] = []
    scheduling_group: dict[str, Any] | None = None
    resource_claims: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []
    active_deadline_seconds: int | None = None
    host_network: bool = False


class PodCondition(ObjectPart, frozen=True):
    """What holds of a pod: its type is "Ready" or another, its status "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""


class PodStatus(ObjectPart, frozen=True):
    """What became of a pod: Pending, Running, Succeeded, Failed or Unknown."""

    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    pod_ip: str = field(default="", name="podIP")
    conditions: list[PodCondition] = []
    resource_claim_statuses: list[dict[str, Any]] = []
    extended_resource_claim_status: dict[str, Any] | None = None


class Pod(ObjectPart, frozen=True):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(ObjectPart, frozen=True):
    """What keeps pods away from a node."""

    key: str = ""
    value: str = ""
    effect: str = ""  # NoSchedule, NoExecute, PreferNoSchedule


class NodeSpec(ObjectPart, frozen=True):
    """How a node is meant to be used."""

    unschedulable: bool = False
    taints: list[Taint] = []


class Condition(ObjectPart, frozen=True):
    """What holds of a node, or of a device of a claim: its type, its status "True", "False" or "Unknown", and why."""

    type: str = ""
    status: str = ""
    reason: str = ""


class NodeStatus(ObjectPart, frozen=True):
    """What a node has, and how it is."""

    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}
    conditions: list[Condition] = []


class Node(ObjectPart, frozen=True):
    """A node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Thing(Protocol):
    """Any object of Kubernetes."""

    @property
    def metadata(self) -> Metadata:
        """What all objects have."""
        ...


T = TypeVar("T", bound=Thing)


class Kind(NamedTuple, Generic[T]):
    """A kind of objects: the beginning of its path, its name there, and the class that its objects are read as.

    Examples
    --------
    >>> PODS.path("default", "p1", "binding"), NODES.path()
    ('/api/v1/namespaces/default/pods/p1/binding', '/api/v1/nodes')
    """

    prefix: str
    plural: str
    type: type[T]
    namespaced: bool = True

    def path(self, namespace: str = "", *names: str) -> str:
        """Of all objects, those of a namespace, one, or a part of one; whatever the names hold, they stay inside."""
        inside = ["namespaces", namespace] if self.namespaced and namespace else []
        return "/".join([self.prefix, *(quote(step, safe="") for step in (*inside, self.plural, *names))])


PODS = Kind("/api/v1", "pods", Pod)
NODES = Kind("/api/v1", "nodes", Node, namespaced=False)
