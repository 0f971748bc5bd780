"""Queues with quotas as ``kubectl get … -o json`` tells of them: Kueue's, and Volcano's.

Kueue: kinds ClusterQueue, Cohort, LocalQueue, ResourceFlavor and WorkloadPriorityClass of kueue.x-k8s.io (v1beta1,
v1beta2). Volcano: kind Queue of scheduling.volcano.sh (v1beta1): capability is the most that a queue may hold, deserved
what it has without being reclaimed from, guarantee what no other gets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import product
from math import prod
from typing import Any

from unrack.cluster.formats.kubernetes.nodes import GPUS
from unrack.cluster.formats.site import Keys, Lost, SaidSite, lose, parsed
from unrack.errors import ClusterError
from unrack.kubernetes_text import entries, inside, objects, quantity, table
from unrack.resources.site.features import MOST_WAYS
from unrack.resources.site.keys import CohortFile, QueueFile, circle_of
from unrack.resources.site.quotas import MOST_KEPT, TooManyKeepError, quotas_of

KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass", "Queue")
"""Kinds of objects that are read here."""
_KUEUE, _VOLCANO = "kueue.x-k8s.io", "scheduling.volcano.sh"
_GPUS = "gpus.count"
_MEASURES = {"cpu": "cores", "memory": "memory", "pods": "tasks"} | dict.fromkeys(GPUS, _GPUS)
_RULES = {"Any": "any", "LowerPriority": "lower-priority", "LowerOrNewerEqualPriority": "lower-priority"}
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
        reader.lend_more(queues)
        for name in [quota["flavour"] for one in queues for quota in one["quotas"] if "flavour" in quota]:
            if name not in reader.labels:
                lose(lost, "Flavours that no file describes have all nodes", name)
        rules: Keys = {"queues": queues} if queues else {}
        rules |= {"cohorts": reader.cohorts} if reader.cohorts else {}
        rules |= {"preempt": {"by": "quota"}} if any({"reclaim", "within"} & set(queue) for queue in queues) else {}
        partitions: dict[str, Keys] = {name: {} for name in reader.flavours}
        return SaidSite(partitions, reader.priorities(), flavours=reader.flavours, rules=rules, lost=lost)


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
        self.flavours: dict[str, Mapping[str, Any]] = {}  # partition → labels that its nodes have
        self.cohorts: list[Keys] = []

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
        """ClusterQueues; and Cohorts that are in others, or have quotas of their own."""
        specs = {name: table(one, "spec") for _, name, _, one in self.of("Cohort")}
        parents = {name: str(spec.get("parentName") or spec.get("parent") or "") for name, spec in specs.items()}
        if circle := circle_of({name: [parent] for name, parent in parents.items()}):
            raise ClusterError(self.found["Cohort", "", circle.split()[0]][0], f"cohorts {circle}", "cohorts in a tree")
        for _, name, at, _ in self.of("Cohort"):
            own: Keys = {"name": name} | ({"cohort": parents[name]} if parents[name] else {})
            quotas = self._quotas(at, specs[name], f"cohort {name}", bool(parents[name]))
            own |= {"quotas": quotas} if quotas else {}
            self.cohorts += [own] if len(own) > 1 else []
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
            queue |= {"cohort": cohort} if cohort else {}
            queue |= {"open": False} if spec.get("stopPolicy") in ("Hold", "HoldAndDrain") else {}
            queue |= {"in_order": True} if spec.get("queueingStrategy") == "StrictFIFO" else {}
            rules = table(spec, "preemption")
            for key, ours in (("reclaimWithinCohort", "reclaim"), ("withinClusterQueue", "within")):
                if (rule := str(rules.get(key, "Never"))) in _RULES:
                    queue[ours] = _RULES[rule]
                if rule == "LowerOrNewerEqualPriority":
                    lose(self.lost, f"Of {rule} the newer of equal priority are not preempted", name)
            self._not_taken(name, spec)
            quotas = self._quotas(at, spec, name, bool(cohort), queue=True)
            self._place(name, spec, quotas)
            queues.append(queue | {"quotas": quotas})
        for name, owners in local.items():
            lose(self.lost, "LocalQueues of a ClusterQueue that no file describes", name, ", ".join(owners))
        self._covered(queues)
        return queues

    def _not_taken(self, name: str, spec: Mapping[str, Any]) -> None:
        """Note what of a ClusterQueue is not taken over."""
        if inside(spec, "preemption", "borrowWithinCohort", "policy") not in (None, "Never"):
            lose(self.lost, "borrowWithinCohort of queues is not taken over", name)
        usual = {"whenCanBorrow": ("Borrow", "MayStopSearch"), "whenCanPreempt": ("TryNextFlavor",)}
        for key, value in table(spec, "flavorFungibility").items():
            if value not in usual.get(key, ()):
                lose(self.lost, f"{key} of queues is not taken over", name, str(value))
        if spec.get("namespaceSelector") != {}:
            lose(self.lost, "Queues that are for some namespaces, or for none, are open to all", name)

    def _quotas(self, at: str, spec: Mapping[str, Any], owner: str, shares: bool, queue: bool = False) -> list[Keys]:
        """The quotas of all resource groups, by flavour."""
        found: dict[str, Keys] = {}
        for said in (flavour for group in entries(spec, "resourceGroups") for flavour in entries(group, "flavors")):
            flavour = _named({"metadata": said}, at)
            own = found.setdefault(flavour, {"nominal": {}, "borrow": {}, "lend": {}})
            for resource in entries(said, "resources"):
                if measure := self._measure(str(resource.get("name")), owner):
                    nominal, borrow, lend = (
                        None if resource.get(word) is None
                        else self._amount(resource[word], measure, f"{at}, {flavour}, {word}")
                        for word in ("nominalQuota", "borrowingLimit", "lendingLimit")
                    )  # fmt: skip
                    lend = min(nominal or 0, nominal or 0 if lend is None else lend) if queue else lend
                    _count(own, measure, nominal or 0, *((borrow, lend) if shares else (None, None)))
        return [_said({"flavour": name, **own}, not queue) for name, own in found.items() if own["nominal"]]

    def _place(self, name: str, spec: Mapping[str, Any], quotas: Sequence[Keys]) -> None:
        """Say in which partitions quotas hold: a job runs in a flavour of each group that has some of what it asks."""
        own: dict[str, Keys] = {quota["flavour"]: quota for quota in quotas}
        groups = [{str(one.get("name")): None for one in entries(group, "flavors")} for group in
                  entries(spec, "resourceGroups")]  # fmt: skip
        some = [[flavour for flavour in group if flavour in own] for group in groups]
        ways = [[*group, *[""] * all("cores" not in own[one]["nominal"] for one in group)] for group in some if group]
        for quota in quotas:
            quota["partitions"] = []
        if prod(map(len, ways)) > MOST_WAYS:
            lose(self.lost, "Jobs run in one flavour, in which quotas of other resource groups do not hold", name)
            ways = [[flavour for group in some for flavour in group]]
        for way in product(*ways):
            chosen = [flavour for flavour in way if flavour]
            labels: dict[str, Any] = {}
            for flavour in chosen:
                labels = {**self.labels.get(flavour, {}), **labels}
            if all(labels[key] == value for one in chosen for key, value in self.labels.get(one, {}).items()):
                partition = "&".join(sorted({one for one in chosen if self.labels.get(one)})) or "".join(chosen[:1])
                for flavour in chosen:
                    self.flavours[partition] = labels
                    own[flavour]["partitions"] += [partition] * (partition not in own[flavour]["partitions"])
        for quota in quotas:
            if quota["partitions"] == [quota["flavour"]]:
                del quota["partitions"]

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

    def lend_more(self, queues: Sequence[Keys]) -> None:
        """Of more queues of a cohort than may keep something for themselves those that keep least lend all."""
        owners = {"queue": queues, "cohort": self.cohorts}
        while True:
            try:
                quotas_of([QueueFile(**one) for one in queues], [CohortFile(**one) for one in self.cohorts])
            except TooManyKeepError as error:
                least = error.least
                owner = next(one for one in owners[least.what] if one["name"] == least.name)
                quota = next(quota for quota in owner["quotas"] if quota.get("flavour", "") == least.flavour)
                del quota["lend"][least.measure]
                if not quota["lend"]:
                    del quota["lend"]
                text = f"Lending limits of over {MOST_KEPT} queues of a cohort are not taken over"
                lose(self.lost, text, least.name)
            else:
                return

    def volcano(self) -> list[Keys]:
        """Queues of Volcano: the root and those with queues below them are cohorts; deserved is nominal."""
        specs = {name: table(one, "spec") for _, name, _, one in self.of("Queue")}
        above = {name: str(spec.get("parent") or "root") for name, spec in specs.items() if name != "root"}
        tree, inner = {name: [parent] for name, parent in above.items()}, {"root", *above.values()}
        if circle := circle_of(tree):
            raise ClusterError(self.found["Queue", "", circle.split()[0]][0], f"queues {circle}", "queues in a tree")
        cohorts = {name: f"volcano {name}" for name in inner} | {"root": "volcano"}
        deserved, kept = ({name: Counter[str]() for name in inner} for _ in range(2))  # by what is below
        queues, order = list[Keys](), [*TopologicalSorter(tree).static_order()]
        bounds = dict.fromkeys(order, frozenset[str]())  # what the queues above one have quotas of
        for name in order:
            if (over := above.get(name)) in specs:
                bounds[name] = bounds[over].union(measure for measure, *_ in self._volcano(over))
        for name, spec in specs.items():
            if name in inner:
                continue
            queue: Keys = {"name": name, "cohort": cohorts[above[name]]}
            queue |= {"default": True} if name == "default" else {}
            if inside(self.found["Queue", "", name][1], "status", "state") in ("Closed", "Closing"):
                queue |= {"open": False}
            own: Keys = {"nominal": {}, "borrow": {}, "lend": {}}
            for measure, have, hold, top in self._volcano(name):
                if have is None and hold is None:  # it is for it alone, as far as there is room
                    _count(own, measure, *((0, top, 0) if measure in bounds[name] else (top or 0, 0, 0)))
                    continue
                nominal = max(have or 0, hold or 0)
                nominal = nominal if top is None else min(nominal, top)
                _count(own, measure, nominal, None if top is None else top - nominal, nominal - (hold or 0))
            for measure in sorted(bounds[name] - own["nominal"].keys()):
                _count(own, measure, 0, None, 0)
            if any(any(amounts.values()) for amounts in _amounts(spec)[:2]):
                queue["reclaim"] = "any"
                if not table(specs.get("root", {}), "capability"):
                    lose(self.lost, "What no queue of Volcano deserves is lent to none here", "volcano")
                if spec.get("reclaimable") is False:
                    lose(self.lost, "Queues that are not reclaimable are reclaimed from here", name)
            elif own["nominal"] and not bounds[name]:
                queue.pop("cohort")
                own |= {"borrow": {}, "lend": {}}
            for measure, nominal in own["nominal"].items() if "cohort" in queue else ():
                deserved[above[name]][measure] += nominal
                kept[above[name]][measure] += nominal - own["lend"].get(measure, nominal)
            if (weight := spec.get("weight", 1)) != 1:
                lose(self.lost, "Weights of queues are not taken over", name, str(weight))
            queues.append(queue | {"quotas": [_said(own)] if own["nominal"] else []})
        for name in [one for one in order if one in inner][::-1]:
            quota = self._volcano_above(name, deserved[name], kept[name], bounds[name])
            cohort: Keys = {"name": cohorts[name]} | ({"quotas": [quota]} if quota else {})
            if parent := above.get(name):
                cohort["cohort"] = cohorts[parent]
                deserved[parent].update(deserved[name])
                kept[parent].update(kept[name])
            self.cohorts += [cohort] if len(cohort) > 1 else []
        return queues

    def _volcano_above(self, name: str, deserved: Counter[str], kept: Counter[str], bounds: Collection[str]) -> Keys:
        """What a queue has beside those below it; of what these deserve and keep becomes what it does."""
        rows, quota = dict[str, list[tuple[int | None, ...]]](), Keys(nominal={}, borrow={}, lend={})
        for measure, *amounts in self._volcano(name):
            rows.setdefault(measure, []).append(tuple(amounts))
        for measure, every in rows.items():
            have, hold, top = (sum(amount or 0 for amount in column) for column in zip(*every, strict=True))
            if measure not in bounds and (name == "root" or not max(deserved[measure], have, hold)):
                have, hold = max(have, top), hold if name == "root" else top  # as of one without queues below
            least = max(deserved[measure], have, hold)
            quota["nominal"][measure] = least - deserved[measure]
            if name != "root" and all(row[2] is not None for row in every):
                quota["borrow"][measure] = max(0, top - least)
                if top < least:
                    lose(self.lost, "Queues below which more is deserved than their capability may use that", name)
            if name != "root" and hold > kept[measure]:
                quota["lend"][measure] = least - hold
            deserved[measure], kept[measure] = least, max(kept[measure], hold)
        return _said(quota, of_cohort=True)

    def _volcano(self, name: str) -> Iterator[tuple[str, int | None, int | None, int | None]]:
        """What a queue of Volcano deserves, is guaranteed and may have at most, by resource."""
        at, one = self.found.get(("Queue", "", name), ("", {}))
        every = _amounts(table(one, "spec"))
        for resource in dict.fromkeys(resource for amounts in every for resource in amounts):
            if measure := self._measure(str(resource), name):
                have, hold, top = (
                    self._amount(amounts[resource], measure, f"{at}, {resource}") if resource in amounts else None
                    for amounts in every
                )
                yield measure, have, hold, top

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


def _amounts(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """What a queue of Volcano deserves, is guaranteed, and may have at most."""
    return table(spec, "deserved"), table(spec, "guarantee", "resource"), table(spec, "capability")


def _count(own: Keys, measure: str, nominal: int, borrow: int | None, lend: int | None) -> None:
    """Add what a queue has of a resource: of several that are one here, such as GPUs of two makers, all of it."""
    first = measure not in own["nominal"]
    own["nominal"][measure] = nominal + own["nominal"].get(measure, 0)
    for limits, limit in ((own["borrow"], borrow), (own["lend"], lend)):
        if limit is not None and (first or measure in limits):
            limits[measure] = limit + limits.get(measure, 0)
        else:
            limits.pop(measure, None)


def _said(quota: Keys, of_cohort: bool = False) -> Keys:
    """What of a quota says something: a queue that lends all does so without being told."""
    own, lend = quota["nominal"], quota["lend"]
    lend = {name: most for name, most in lend.items() if of_cohort or most < own[name]}
    return {key: value for key, value in (quota | {"lend": lend}).items() if value}
