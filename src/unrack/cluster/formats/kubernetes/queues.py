"""Queues with quotas as ``kubectl get … -o json`` tells of them: Kueue's, and Volcano's.

Kueue: kinds ClusterQueue, Cohort, LocalQueue, ResourceFlavor and WorkloadPriorityClass of kueue.x-k8s.io (v1beta1,
v1beta2). Volcano: kind Queue of scheduling.volcano.sh (v1beta1): capability is the most that a queue may hold, deserved
what it has without being reclaimed from, guarantee what no other gets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unrack.cluster.formats.kubernetes.nodes import GPUS
from unrack.cluster.formats.site import Keys, Lost, SaidSite, lose, parsed
from unrack.errors import ClusterError
from unrack.kubernetes_text import entries, inside, objects, quantity, table
from unrack.resources.site.quotas import MOST_KEPT

KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass", "Queue")
"""Kinds of objects that are read here."""
_KUEUE, _VOLCANO = "kueue.x-k8s.io", "scheduling.volcano.sh"
_GPUS = "gpus.count"
_MEASURES = {"cpu": "cores", "memory": "memory", "pods": "tasks"} | dict.fromkeys(GPUS, _GPUS)
_RULES = {"Any": "any", "LowerPriority": "lower-priority", "LowerOrNewerEqualPriority": "lower-priority"}
_WAITS = "First in a StrictFIFO queue, a job holds up none here"
_TAKEN = {
    "queues": "resourceGroups cohort cohortName stopPolicy preemption queueingStrategy flavorFungibility "
    "namespaceSelector weight capability deserved guarantee reclaimable parent",
    "flavours": "nodeLabels tolerations",
    "cohorts": "resourceGroups parent parentName",
}
"""Keys of objects that are read, or lost in words of their own; all others are told."""
_USUAL = ({"weight": "1"}, {"weight": 1}, "traverse")
"""What others say where nothing is said."""
Found = dict[tuple[str, str, str], tuple[str, Mapping[str, Any]]]
"""Kind, namespace and name → where an object is, and what it says."""


@dataclass(frozen=True)
class QueueObjects:
    """What one or more documents say of queues: they mean something only together."""

    found: Found
    others: Mapping[str, int]  # kinds of these systems that are not read → how many
    milli: bool  # count thousandths of cores in place of whole ones

    def then(self, later: QueueObjects) -> QueueObjects:
        """What both say; of what both say, the later counts."""
        others = {**Counter(self.others) + Counter(later.others)}
        return QueueObjects({**self.found, **later.found}, others, self.milli)

    def site(self) -> SaidSite:
        """As a site. A ClusterError if a queue has a value that cannot be."""
        lost: Lost = {}
        for kind, count in self.others.items():
            lose(lost, "Objects of these kinds are not taken over", kind, str(count))
        reader = _Reader(self.found, 1000 if self.milli else 1, lost)
        queues = [*reader.kueue(), *reader.volcano()]
        used = dict.fromkeys(quota["flavour"] for one in queues for quota in one["quotas"] if "flavour" in quota)
        for name in used.keys() - reader.labels.keys():
            lose(lost, "Flavours that no file describes have all nodes", name)
        rules: Keys = {"queues": queues} if queues else {}
        rules |= {"preempt": {"by": "quota"}} if any({"reclaim", "within"} & set(queue) for queue in queues) else {}
        flavours = {name: reader.labels.get(name, {}) for name in used}
        partitions: dict[str, Keys] = {name: {} for name in used}
        return SaidSite(partitions, reader.priorities(), flavours=flavours, rules=rules, lost=lost)


def kubernetes_queues(content: Any, where: str, *, milli: bool = False) -> QueueObjects | None:
    """The queues of a document, and what belongs to them; ``None``: it has none of it.

    A ClusterError if one has no name.
    """
    try:
        every = [(kind, at, one) for kind in KINDS for at, one in objects(content, kind)]
    except ValueError:
        return None
    found, others = Found(), Counter[str]()
    for kind, at, one in every:
        if _group(one) in ("", _VOLCANO if kind == "Queue" else _KUEUE):
            place = ", ".join(filter(None, (where, at)))
            space = str(inside(one, "metadata", "namespace") or "default") if kind == "LocalQueue" else ""
            found[kind, space, _named(one, place)] = place, one
    for one in entries(content, "items") or [content]:
        kind = str(one.get("kind"))
        if (kind not in KINDS and _group(one) in (_KUEUE, _VOLCANO)) or (
            kind == "Queue" and _group(one) not in ("", _VOLCANO)
        ):
            others[f"{kind} of {_group(one)}"] += 1
    return QueueObjects(found, others, milli) if found or others else None


def _group(one: Mapping[str, Any]) -> str:
    """The group of the API that an object is of; ``""``: it is not said."""
    return str(one.get("apiVersion", "")).rpartition("/")[0]


def _named(one: Mapping[str, Any], at: str) -> str:
    name = inside(one, "metadata", "name")
    if not isinstance(name, str) or not name:
        raise ClusterError(f"{at}, metadata.name", repr(name)[:80], "a name")
    return name


class _Reader:
    def __init__(self, found: Found, cores: int, lost: Lost) -> None:
        self.found, self.cores, self.lost = found, cores, lost
        self.labels = {name: table(one, "spec", "nodeLabels") for _, name, _, one in self.of("ResourceFlavor")}
        for kind, word in (("ClusterQueue", "queues"), ("Queue", "queues"), ("Cohort", "cohorts"),
                           ("ResourceFlavor", "flavours")):  # fmt: skip
            for _, name, _, one in self.of(kind):
                for key, value in table(one, "spec").items():
                    if value and value not in _USUAL and key not in _TAKEN[word].split():
                        lose(lost, f"{key} of {word} is not taken over", name)
        self.everywhere = self._everywhere()

    def of(self, kind: str) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
        """Namespace, name, place and content of the objects of a kind."""
        for (own, space, name), (at, one) in self.found.items():
            if own == kind:
                yield space, name, at, one

    def priorities(self) -> dict[str, Keys]:
        """Classes of priority, each as a quality of service."""
        found: dict[str, Keys] = {}
        for _, name, at, one in self.of("WorkloadPriorityClass"):
            value = one.get("value", 0)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ClusterError(f"{at}, value", repr(value)[:80], "a whole number")
            if value < 0:
                lose(self.lost, "Priorities below 0 are 0 here", name, str(value))
            found[name] = {"priority": max(value, 0)}
        return found

    def kueue(self) -> list[Keys]:
        """ClusterQueues, and Cohorts that have quotas of their own, which they lend."""
        cohorts = {name: one for _, name, _, one in self.of("Cohort")}
        roots = {name: self._root(name, at, cohorts) for _, name, at, _ in self.of("Cohort")}
        local: dict[str, list[str]] = {}
        for space, name, _, one in self.of("LocalQueue"):
            local.setdefault(str(inside(one, "spec", "clusterQueue")), []).append(f"{space}/{name}")
            if inside(one, "spec", "stopPolicy") not in (None, "None"):
                lose(self.lost, "stopPolicy of LocalQueues is not taken over", f"{space}/{name}")
        queues = []
        for _, name, at, one in self.of("ClusterQueue"):
            spec = table(one, "spec")
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
        self._covered(queues)
        for _, name, at, one in self.of("Cohort"):
            if quotas := self._quotas(at, f"cohort {name}", table(one, "spec"), bool(roots[name] != name)):
                if any(quota.pop("lend", {}) or quota.pop("borrow", {}) for quota in quotas):
                    lose(self.lost, "Borrowing and lending limits of cohorts are not taken over", name)
                queues.append({"name": f"cohort {name}", "cohort": roots[name], "open": False, "quotas": quotas})
        self._lend_more(queues)
        return queues

    def _root(self, name: str, at: str, cohorts: Mapping[str, Mapping[str, Any]]) -> str:
        """The cohort that has no parent; without limits in between its whole tree lends alike."""
        seen = [name]
        while seen[-1] in cohorts:
            spec = table(cohorts[seen[-1]], "spec")
            parent = str(spec.get("parentName") or spec.get("parent") or "")
            if not parent:
                break
            if parent in seen:
                raise ClusterError(at, f"cohort {name!r} above itself", "cohorts in a tree")
            seen.append(parent)
        return seen[-1]

    def _not_taken(self, name: str, spec: Mapping[str, Any]) -> None:
        """Note what of a ClusterQueue is not taken over."""
        if spec.get("queueingStrategy") == "StrictFIFO":
            lose(self.lost, _WAITS, name)
        if inside(spec, "preemption", "borrowWithinCohort", "policy") not in (None, "Never"):
            lose(self.lost, "borrowWithinCohort of queues is not taken over", name)
        usual = {"whenCanBorrow": ("Borrow", "MayStopSearch"), "whenCanPreempt": ("TryNextFlavor",)}
        for key, value in table(spec, "flavorFungibility").items():
            if value not in usual.get(key, ()):
                lose(self.lost, f"{key} of queues is not taken over", name, str(value))
        if spec.get("namespaceSelector") != {}:
            lose(self.lost, "Queues that are for some namespaces, or for none, are open to all", name)

    def _everywhere(self) -> set[str]:
        """Flavours that are no choice, which bound jobs wherever they run: then other groups may have a choice.

        None where no queue has several groups; else those of all nodes that are alone in their groups, and alone to
        have an amount.
        """
        specs = [table(one, "spec") for kind in ("ClusterQueue", "Cohort") for *_, one in self.of(kind)]
        groups = [(len(own), one) for spec in specs if (own := entries(spec, "resourceGroups")) for one in own]
        if all(count == 1 for count, _ in groups):
            return set()
        of: dict[str, set[str]] = {}  # resource → its flavours
        chosen = set[str]()
        for _, group in groups:
            flavours = entries(group, "flavors")
            names = {str(one.get("name")) for one in flavours}
            chosen |= {name for name in names if len(names) > 1 or self.labels.get(name)}
            for one in flavours:
                for resource in entries(one, "resources"):
                    of.setdefault(str(resource.get("name")), set()).add(str(one.get("name")))
        some = {name for names in of.values() for name in names} - chosen
        return some - {name for names in of.values() if len(names & some) > 1 for name in names}

    def _quotas(self, at: str, name: str, spec: Mapping[str, Any], shares: bool) -> list[Keys]:
        """The quotas of all resource groups; a flavour in several groups is one."""
        found: dict[str, Keys] = {}
        groups = entries(spec, "resourceGroups")
        choices = 0
        for group in groups:
            flavours = {_named({"metadata": one}, at): one for one in entries(group, "flavors")}
            choices += bool(flavours.keys() - self.everywhere)
            for flavour, said in flavours.items():
                key = "" if flavour in self.everywhere else flavour
                own = found.setdefault(key, {"nominal": {}, "borrow": {}, "lend": {}})
                for resource in entries(said, "resources"):
                    if measure := self._measure(str(resource.get("name")), name):
                        nominal, borrow, lend = (
                            None if resource.get(word) is None
                            else self._amount(resource[word], measure, f"{at}, {flavour}, {word}")
                            for word in ("nominalQuota", "borrowingLimit", "lendingLimit")
                        )  # fmt: skip
                        limits = (borrow, lend) if shares else (None, None)
                        _count(own, measure, nominal or 0, *limits)
        if choices > 1:
            lose(self.lost, "Jobs run in one flavour, in which quotas of other resource groups do not hold", name)
        return [_without_empty({"flavour": name, **own}) for name, own in found.items() if own["nominal"]]

    def _covered(self, queues: Iterable[Keys]) -> None:
        """What a queue has no quota of, Kueue gives it nothing of."""
        own = {one["name"]: {name for quota in one["quotas"] for name in quota["nominal"]} for one in queues}
        for queue in queues:
            name, has = queue["name"], own[queue["name"]]
            if not has:
                queue["open"] = False
                lose(self.lost, "Queues without quotas admit nothing", name)
                continue
            if _GPUS not in has and any(_GPUS in others for others in own.values()):
                quota: Keys = next((one for one in queue["quotas"] if "flavour" not in one), {"nominal": {}})
                quota["nominal"][_GPUS] = 0
                quota |= {"borrow": {**quota.get("borrow", {}), _GPUS: 0}} if "cohort" in queue else {}
                queue["quotas"] += [quota] if quota not in queue["quotas"] else []
            if lacking := [what for what in ("cores", "memory") if what not in has]:
                text = "Kueue admits no job that asks for what its queue has no quota of, which does not bound it here"
                lose(self.lost, text, name, ", ".join(lacking))

    def _lend_more(self, queues: Iterable[Keys]) -> None:
        """Of more queues of a cohort than may keep something for themselves those that keep least lend all."""
        every: dict[tuple[str, str, str], list[tuple[int, int, str, Keys]]] = {}
        for queue in queues:
            for quota in queue["quotas"]:
                for measure, nominal in quota["nominal"].items():
                    lent = quota.get("lend", {}).get(measure, nominal)
                    key = str(queue.get("cohort")), str(quota.get("flavour")), measure
                    every.setdefault(key, []).append((nominal - lent, lent, queue["name"], quota))
        for (*_, measure), own in every.items():
            keepers = [one for one in own if one[0] and (one[1] or one[3].get("borrow", {}).get(measure) != 0)]
            if not any(lent for _, lent, *_ in own):
                continue
            for *_, name, quota in sorted(keepers, key=lambda one: one[0])[: max(0, len(keepers) - MOST_KEPT)]:
                del quota["lend"][measure]
                quota.update(_without_empty({"lend": quota.pop("lend")}))
                lose(self.lost, f"Lending limits of over {MOST_KEPT} queues of a cohort are not taken over", name)

    def volcano(self) -> Iterator[Keys]:
        """Queues of Volcano: one cohort, in which deserved is nominal."""
        parents = {str(inside(one, "spec", "parent") or "root") for *_, one in self.of("Queue")}
        for _, name, at, one in self.of("Queue"):
            spec = table(one, "spec")
            if name == "root" or name in parents:
                if any(spec.get(key) for key in ("capability", "deserved", "guarantee")) and name != "root":
                    lose(self.lost, "Quotas of queues with queues below them are not taken over", name)
                continue
            deserved, most = table(spec, "deserved"), table(spec, "capability")
            kept = table(spec, "guarantee", "resource")
            queue: Keys = {"name": name, "cohort": "volcano"} | ({"default": True} if name == "default" else {})
            queue |= {"open": False} if inside(one, "status", "state") in ("Closed", "Closing") else {}
            own: Keys = {"nominal": {}, "borrow": {}, "lend": {}}
            for resource in dict.fromkeys([*deserved, *kept, *most]):
                if measure := self._measure(str(resource), name):
                    have, hold, top = (
                        self._amount(amounts[resource], measure, f"{at}, {resource}") if resource in amounts else None
                        for amounts in (deserved, kept, most)
                    )
                    if have is None and hold is None:  # it is for it alone, as far as there is room
                        _count(own, measure, top or 0, 0, 0)
                        continue
                    nominal = max(have or 0, hold or 0)
                    nominal = nominal if top is None else min(nominal, top)
                    _count(own, measure, nominal, None if top is None else top - nominal, nominal - (hold or 0))
            if any(deserved.values()) or any(kept.values()):
                queue["reclaim"] = "any"
                lose(self.lost, "What no queue of Volcano deserves is lent to none here", "volcano")
                if spec.get("reclaimable") is False:
                    lose(self.lost, "Queues that are not reclaimable are reclaimed from here", name)
            elif own["nominal"]:
                queue.pop("cohort")
                own = {"nominal": own["nominal"]}
            if (weight := spec.get("weight", 1)) != 1:
                lose(self.lost, "Weights of queues are not taken over", name, str(weight))
            yield queue | {"quotas": [_without_empty(own)] if own["nominal"] else []}

    def _measure(self, resource: str, owner: str) -> str:
        """What we call a resource; ``""``: nothing here is of it."""
        if resource not in _MEASURES:
            lose(self.lost, "Quotas of resources that no job asks for here", resource, owner)
        return _MEASURES.get(resource, "")

    def _amount(self, value: object, measure: str, at: str) -> int:
        number = parsed(value, at, quantity)
        amount = math.floor(
            number / 2**20 if measure == "memory" else number * self.cores if measure == "cores" else number
        )
        if amount >= 2**53:
            raise ClusterError(at, repr(value)[:80], "less")
        return amount


def _count(own: Keys, measure: str, nominal: int, borrow: int | None, lend: int | None) -> None:
    """Add what a queue has of a resource: of several that are one here, such as GPUs of two makers, all of it."""
    before = own["nominal"].get(measure)
    lent = nominal if lend is None else lend
    lent += own["lend"].get(measure, before or 0)
    own["nominal"][measure] = nominal + (before or 0)
    if borrow is not None and (before is None or measure in own["borrow"]):
        own["borrow"][measure] = borrow + own["borrow"].get(measure, 0)
    else:
        own["borrow"].pop(measure, None)
    if lent < own["nominal"][measure]:
        own["lend"][measure] = lent


def _without_empty(quota: Keys) -> Keys:
    return {key: value for key, value in quota.items() if value}
