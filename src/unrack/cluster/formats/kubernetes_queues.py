"""Queues with quotas as ``kubectl get … -o json`` tells of them: Kueue's, and Volcano's.

Kueue: kinds ClusterQueue, Cohort, LocalQueue and ResourceFlavor of kueue.x-k8s.io (v1beta1, v1beta2). Volcano: kind
Queue of scheduling.volcano.sh (v1beta1): capability is the most that a queue may hold, deserved what it has without
being reclaimed from, guarantee what no other gets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from unrack.cluster.formats.described import Described, DescribedNode
from unrack.cluster.formats.site import Keys, Lost, SaidSite, lose, parsed
from unrack.errors import ClusterError
from unrack.kubernetes_text import entries, inside, objects, quantity, table

GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
"""Resources that are GPUs."""
_MODELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name")
_RACKS = ("topology.kubernetes.io/rack", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_MASTERS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def kubernetes_nodes(content: Any, where: str, name: str, *, milli: bool = False) -> Described:
    """Read a list of nodes; other objects of the list are passed over.

    ``content``: the parsed JSON; ``where``, ``name``: what errors call the file, and what the cluster is called;
    ``milli``: count thousandths of cores in place of whole ones. A ClusterError if there is no node, or one has a value
    that cannot be.
    """
    try:
        found = objects(content, "Node")
    except ValueError as error:
        raise ClusterError(where, "another document", str(error).rpartition(" is not ")[2]) from None
    if not found:
        raise ClusterError(where, "no node", "the output of kubectl get nodes,pods -o json")
    tainted: Counter[str] = Counter()
    nodes = tuple(_node(node, f"{where}, {at}".rstrip(", "), milli, tainted) for at, node in found)
    notes = [
        f"Open to all here in spite of the taint {taint}: {count} node{'s' * (count != 1)}."
        for taint, count in sorted(tainted.items())
    ]
    return Described(where, name, nodes, {}, tuple(notes))


def _node(node: Mapping[str, Any], at: str, milli: bool, tainted: Counter[str]) -> DescribedNode:
    allocatable = table(node, "status", "allocatable") or table(node, "status", "capacity")

    def amount(key: str, unit: int = 1) -> int:
        if key not in allocatable:
            return 0
        number = math.floor(parsed(allocatable[key], f"{at}, status.allocatable.{key}", quantity) / unit)
        if number >= 2**42:
            raise ClusterError(f"{at}, status.allocatable.{key}", repr(allocatable[key])[:80], "less")
        return number

    for key in ("cpu", "memory"):
        if key not in allocatable:
            raise ClusterError(f"{at}, status.allocatable.{key}", "nothing", "a quantity such as 8 or 32Gi")
    cores = amount("cpu") if not milli else math.floor(quantity(allocatable["cpu"]) * 1000)
    if cores >= 2**31:
        raise ClusterError(f"{at}, status.allocatable.cpu", repr(allocatable["cpu"])[:80], "fewer cores")
    labels = table(node, "metadata", "labels")
    gpus = next((key for key in GPUS if amount(key)), None)
    down = node_down(node)
    for taint in entries(node, "spec", "taints"):
        if not down and taint.get("effect") in ("NoSchedule", "NoExecute"):
            tainted[str(taint.get("key"))] += 1
    counted = {key for key in allocatable if "/" in str(key)} - {gpus}
    return DescribedNode(
        _name(node, at),
        cores,
        amount("memory", 2**20),
        amount(gpus) if gpus else 0,
        next((str(labels[key]) for key in _MODELS if key in labels), "") if gpus else "",
        frozenset(),
        next((str(labels[key]) for key in _RACKS if key in labels), ""),
        down,
        {key: held for key in sorted(counted) if (held := amount(key))},
        labels=labels,
    )


def _name(node: Mapping[str, Any], at: str) -> str:
    name = inside(node, "metadata", "name")
    if not isinstance(name, str) or not name or any(mark in name for mark in ",[] \t\n"):
        raise ClusterError(f"{at}, metadata.name", repr(name)[:80], "the name of a node")
    return name


def node_down(node: Mapping[str, Any]) -> str:
    """Why nothing is started on the node; ``""``: it is in use."""
    if inside(node, "spec", "unschedulable") is True:
        return "cordoned"
    ready = [one for one in entries(node, "status", "conditions") if one.get("type") == "Ready"]
    if any(one.get("status") != "True" for one in ready):
        return "not ready"
    taints = [str(one.get("key")) for one in entries(node, "spec", "taints")]
    return "of the control plane" if any(key in _MASTERS for key in taints) else ""


KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Queue")
"""Kinds of objects that are read here."""
_MEASURES = {"cpu": "cores", "memory": "memory", "pods": "tasks"} | dict.fromkeys(GPUS, "gpus.count")
_RULES = {"Any": "any", "LowerPriority": "lower-priority", "LowerOrNewerEqualPriority": "lower-priority"}
_WAITS = "First in a StrictFIFO queue, a job holds up none here"
_ELSE = "of queues is not taken over"


def kubernetes_queues(content: Any, where: str, *, milli: bool = False) -> SaidSite | None:
    """What the queues of a document say; ``None``: it has no queues.

    A ClusterError if a queue has no name, or a value that cannot be.
    """
    try:
        found = {kind: objects(content, kind) for kind in KINDS}
    except ValueError:
        return None
    if not any(found.values()):
        return None
    lost: Lost = {}
    reader = _Reader(where, 1000 if milli else 1, lost)
    described = {reader.name(at, one): table(one, "spec", "nodeLabels") for at, one in found["ResourceFlavor"]}
    queues = reader.kueue(found) + reader.volcano(found["Queue"])
    flavours: dict[str, Mapping[str, Any]] = {}
    for queue in queues:
        for name in [quota["flavour"] for quota in queue["quotas"] if "flavour" in quota]:
            if name not in described:
                lose(lost, "Flavours that no file describes have all nodes", name)
            flavours[name] = described.get(name, {})
    rules: Keys = {"queues": queues} if queues else {}
    rules |= {"preempt": {"by": "quota"}} if any({"reclaim", "within"} & set(queue) for queue in queues) else {}
    return SaidSite(partitions={name: {} for name in flavours}, flavours=flavours, rules=rules, lost=lost)


class _Reader:
    def __init__(self, where: str, cores: int, lost: Lost) -> None:
        self.where, self.cores, self.lost = where, cores, lost

    def name(self, at: str, one: Mapping[str, Any]) -> str:
        """The name of an object."""
        name = inside(one, "metadata", "name")
        if not isinstance(name, str) or not name:
            raise ClusterError(self._at(at, "metadata.name"), repr(name)[:80], "a name")
        return name

    def kueue(self, found: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]) -> list[Keys]:
        """ClusterQueues, and Cohorts that have quotas of their own, which they lend."""
        cohorts = {self.name(at, one): one for at, one in found["Cohort"]}
        roots = {name: self._root(name, cohorts) for name in cohorts}
        local: dict[str, list[str]] = {}
        for at, one in found["LocalQueue"]:
            space = inside(one, "metadata", "namespace") or "default"
            local.setdefault(str(inside(one, "spec", "clusterQueue")), []).append(f"{space}/{self.name(at, one)}")
            if inside(one, "spec", "stopPolicy") not in (None, "None"):
                lose(self.lost, "stopPolicy of LocalQueues is not taken over", f"{space}/{self.name(at, one)}")
        queues = []
        for at, one in found["ClusterQueue"]:
            name, spec = self.name(at, one), table(one, "spec")
            cohort = str(spec.get("cohortName") or spec.get("cohort") or "")
            queue: Keys = {"name": name} | ({"also": local.pop(name)} if name in local else {})
            queue |= {"cohort": roots.get(cohort, cohort)} if cohort else {}
            queue |= {"open": False} if spec.get("stopPolicy") in ("Hold", "HoldAndDrain") else {}
            rules = table(spec, "preemption")
            for key, ours in (("reclaimWithinCohort", "reclaim"), ("withinClusterQueue", "within")):
                if (rule := str(rules.get(key, "Never"))) in _RULES:
                    queue[ours] = _RULES[rule]
                if rule == "LowerOrNewerEqualPriority":
                    lose(self.lost, f"Of {rule} the newer of equal priority are not preempted", name)
            self._not_taken(name, spec)
            queues.append(queue | {"quotas": self._quotas(at, name, spec, bool(cohort))})
        for name, owners in local.items():
            lose(self.lost, "LocalQueues of a ClusterQueue that no file describes", name, ", ".join(owners))
        for at, one in found["Cohort"]:
            name = self.name(at, one)
            if quotas := self._quotas(at, f"cohort {name}", table(one, "spec"), bool(roots[name] != name)):
                if any(quota.pop("lend", {}) or quota.pop("borrow", {}) for quota in quotas):
                    lose(self.lost, "Borrowing and lending limits of cohorts are not taken over", name)
                queues.append({"name": f"cohort {name}", "cohort": roots[name], "open": False, "quotas": quotas})
        return queues

    def _root(self, name: str, cohorts: Mapping[str, Mapping[str, Any]]) -> str:
        """The cohort that has no parent; without limits in between its whole tree lends alike."""
        seen = [name]
        while seen[-1] in cohorts:
            spec = table(cohorts[seen[-1]], "spec")
            parent = str(spec.get("parentName") or spec.get("parent") or "")
            if not parent:
                break
            if parent in seen:
                raise ClusterError(self.where, f"cohort {name!r} above itself", "cohorts in a tree")
            seen.append(parent)
        return seen[-1]

    def _not_taken(self, name: str, spec: Mapping[str, Any]) -> None:
        """Note what of a ClusterQueue is not taken over."""
        if spec.get("queueingStrategy") == "StrictFIFO":
            lose(self.lost, _WAITS, name)
        if inside(spec, "preemption", "borrowWithinCohort", "policy") not in (None, "Never"):
            lose(self.lost, f"borrowWithinCohort {_ELSE}", name)
        fungible = table(spec, "flavorFungibility")
        if fungible.get("whenCanBorrow", "Borrow") not in ("Borrow", "MayStopSearch"):
            lose(self.lost, f"whenCanBorrow {_ELSE}", name, str(fungible["whenCanBorrow"]))
        if fungible.get("whenCanPreempt", "TryNextFlavor") != "TryNextFlavor":
            lose(self.lost, f"whenCanPreempt {_ELSE}", name, str(fungible["whenCanPreempt"]))
        for key in ("admissionChecks", "admissionChecksStrategy", "fairSharing"):
            if spec.get(key):
                lose(self.lost, f"{key} {_ELSE}", name)

    def _quotas(self, at: str, name: str, spec: Mapping[str, Any], shares: bool) -> list[Keys]:
        """The quotas of all resource groups; a flavour in several groups is one."""
        found: dict[str, Keys] = {}
        groups = entries(spec, "resourceGroups")
        for group, listed in enumerate(groups):
            flavours = entries(listed, "flavors")
            if group and len(flavours) > 1 and any(len(entries(one, "flavors")) > 1 for one in groups[:group]):
                lose(self.lost, "Jobs of several resource groups run in one flavour for all of them", name)
            for flavour in flavours:
                own = found.setdefault(self.name(at, {"metadata": flavour}), {"nominal": {}, "borrow": {}, "lend": {}})
                for resource in entries(flavour, "resources"):
                    measure = self._measure(str(resource.get("name")), name)
                    for key, ours in (
                        ("nominalQuota", "nominal"),
                        ("borrowingLimit", "borrow"),
                        ("lendingLimit", "lend"),
                    ):
                        value = resource.get(key, 0 if ours == "nominal" else None)
                        if measure and value is not None and (shares or ours == "nominal"):
                            amount = self._amount(value, measure, f"{at}, {flavour['name']}, {key}")
                            own[ours][measure] = own[ours].get(measure, 0) + amount
        return [_without_empty({"flavour": name, **own}) for name, own in found.items() if own["nominal"]]

    def volcano(self, found: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Keys]:
        """Queues of Volcano: one cohort, in which deserved is nominal."""
        queues = []
        parents = {str(inside(one, "spec", "parent") or "root") for _, one in found}
        for at, one in found:
            name, spec = self.name(at, one), table(one, "spec")
            if name == "root" or name in parents:
                if any(spec.get(key) for key in ("capability", "deserved", "guarantee")) and name != "root":
                    lose(self.lost, "Quotas of queues with queues below them are not taken over", name)
                continue
            deserved, most = table(spec, "deserved"), table(spec, "capability")
            kept = table(spec, "guarantee", "resource")
            queue: Keys = {"name": name, "cohort": "volcano"} | ({"default": True} if name == "default" else {})
            queue |= {"open": False} if inside(one, "status", "state") in ("Closed", "Closing") else {}
            own: Keys = {"nominal": {}, "borrow": {}, "lend": {}}
            hard: dict[str, int] = {}
            for resource in dict.fromkeys([*deserved, *kept, *most]):
                measure = self._measure(str(resource), name)
                if not measure:
                    continue
                have, hold, top = (
                    self._amount(amounts[resource], measure, f"{at}, {resource}") if resource in amounts else None
                    for amounts in (deserved, kept, most)
                )
                if have is None and hold is None:
                    hard[measure] = hard.get(measure, 0) + (top or 0)
                    continue
                nominal = max(have or 0, hold or 0)
                own["nominal"][measure] = own["nominal"].get(measure, 0) + nominal
                if hold:
                    own["lend"][measure] = nominal - hold
                if top is not None:
                    own["borrow"][measure] = max(0, top - nominal)
            if own["nominal"]:
                queue["reclaim"] = "any"
                lose(self.lost, "What no queue of Volcano deserves is lent to none here", "volcano")
            if own["nominal"] and spec.get("reclaimable") is False:
                lose(self.lost, "Queues that are not reclaimable are reclaimed from here", name)
            if hard and own["nominal"]:
                lose(self.lost, "Of queues with deserved or guarantee, capability of other resources is left out", name)
            elif hard:
                queue.pop("cohort")
                own["nominal"] = hard
            if (weight := spec.get("weight", 1)) != 1:
                lose(self.lost, "Weights of queues are not taken over", name, str(weight))
            queues.append(queue | {"quotas": [_without_empty(own)] if own["nominal"] else []})
        return queues

    def _measure(self, resource: str, owner: str) -> str:
        """What we call a resource; ``""``: nothing here is of it."""
        if resource not in _MEASURES:
            lose(self.lost, "Quotas of resources that no job asks for here", resource, owner)
        return _MEASURES.get(resource, "")

    def _amount(self, value: object, measure: str, at: str) -> int:
        number = parsed(value, self._at(at), quantity)
        amount = math.floor(
            number / 2**20 if measure == "memory" else number * self.cores if measure == "cores" else number
        )
        if amount >= 2**53:
            raise ClusterError(self._at(at), repr(value)[:80], "less")
        return amount

    def _at(self, *parts: str) -> str:
        return ", ".join([self.where, *(part for part in parts if part)])


def _without_empty(quota: Keys) -> Keys:
    return {key: value for key, value in quota.items() if value}
