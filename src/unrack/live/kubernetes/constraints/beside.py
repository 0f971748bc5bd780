"""On which nodes a pod may not run because of the pods that are there, or are being bound: as kube-scheduler has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from unrack.kubernetes_text import entries
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.constraints.ports import Port, ports_of
from unrack.live.kubernetes.constraints.selecting import REQUIRED, Labels, Term, terms_of
from unrack.live.kubernetes.constraints.spread import Spread, spreads_of, too_many

MOST_TERMS, MOST_PORTS, MOST_CHARACTERS = 32, 256, 20_000
"""How much a pod may require of those beside it: terms of affinity and spread, ports of its node, and characters."""


class PodTerms(NamedTuple):
    """What a pod requires of the pods beside it."""

    to: tuple[Term, ...]  # pods that have to be there
    away: tuple[Term, ...]  # pods that must not be there
    spreads: tuple[Spread, ...]
    ports: tuple[Port, ...]

    @property
    def words(self) -> str:
        """What it is, for people; ``""``: nothing."""
        words = "affinity to other pods", "anti-affinity to other pods", "topology spread", "ports of its node"
        return ", ".join(word for word, some in zip(words, self, strict=True) if some)


def says_too_much(pod: Pod) -> bool:
    """True if a pod requires so much of the pods beside it that looking it up would take the time of all others."""
    affinity, spreads = pod.spec.affinity, pod.spec.topology_spread_constraints
    terms = [entries(affinity, kind, REQUIRED) for kind in ("podAffinity", "podAntiAffinity")]
    if sum(map(len, terms)) + len(spreads) > MOST_TERMS or len(ports_of(pod)) > MOST_PORTS:
        return True
    return bool(any(terms) or spreads) and len(repr((terms, spreads))) > MOST_CHARACTERS


def required_beside(pod: Pod) -> PodTerms:
    """What a pod requires of the pods beside it; of one that says too much, nothing: it is not to be started."""
    if says_too_much(pod):
        return PodTerms((), (), (), ())
    return PodTerms(terms_of(pod, "podAffinity"), terms_of(pod, "podAntiAffinity"), spreads_of(pod), ports_of(pod))


class Beside:
    """The pods that have nodes.

    Attributes
    ----------
    namespaces
        The labels of each.
    version
        Another number whenever anything has changed, labels of nodes included.
    requiring
        What pods require that require anything, by key, as far as that was asked for.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.namespaces: dict[str, Labels] = {}
        self.version = 0
        self._nodes = nodes
        self._on: dict[str, dict[str, Pod]] = {}
        self._where: dict[str, str] = {}
        self._repel: dict[str, tuple[Pod, tuple[Term, ...]]] = {}
        self._repelled_at, self._repelled_by = -1, dict[tuple[str, frozenset[tuple[str, str]]], set[str]]()
        self._known, self.requiring = dict[str, PodTerms](), dict[str, PodTerms]()

    def put(self, key: str, pod: Pod | None, node: str) -> None:
        """A pod has a node, or is being bound to it; ``""``: it has none any more."""
        was = self._where.pop(key, "")
        if was:
            del self._on[was][key]
            self._repel.pop(key, None)
        if node and pod is not None:
            self._where[key] = node
            self._on.setdefault(node, {})[key] = pod
            if pod.spec.affinity and (terms := terms_of(pod, "podAntiAffinity")):
                self._repel[key] = pod, terms
        if was or node:
            self.version += 1

    def required(self, key: str, pod: Pod) -> PodTerms:
        """What a pod requires of the pods beside it, remembered until :meth:`forget`."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = required_beside(pod)
            if any(found):
                self.requiring[key] = found
        return found

    def forget(self, key: str) -> None:
        """A pod is gone."""
        self._known.pop(key, None)
        self.requiring.pop(key, None)

    def about(self, some: Iterable[tuple[Pod, PodTerms]]) -> Beside:
        """A copy with those pods alone that may matter to some pods, which require this."""
        found, said = Beside(self._nodes), {repr((pod.metadata.namespace, of)): (pod, of) for pod, of in some}
        found.namespaces, namespaces = self.namespaces, self.namespaces
        terms = [term for _, of in said.values() for term in (*of.to, *of.away)]
        spreads = [(spread, pod.metadata.namespace) for pod, of in said.values() for spread in of.spreads]
        ports = any(of.ports for _, of in said.values())
        for node, pods in self._on.items():
            for key, pod in pods.items():
                if (
                    key in self._repel
                    or any(term.means(pod, namespaces) for term in terms)
                    or any(spread.counts(pod, namespace) for spread, namespace in spreads)
                    or (ports and ports_of(pod))
                ):
                    found.put(key, pod, node)
        return found

    @property
    def repels(self) -> bool:
        """True if a pod that is there wants some others not beside it."""
        return bool(self._repel)

    def matters(self, terms: PodTerms) -> bool:
        """True if where other pods are may matter to a pod that requires this."""
        return any(terms) or bool(self._repel)

    def forbidden(self, pod: Pod, terms: PodTerms) -> set[str]:
        """The nodes on which it may not run, by name."""
        found = self._repelled(pod)
        for away in terms.away:
            found |= self._at(away.key, self._places(away))
        if terms.to:
            found |= self._without_all(pod, terms.to)
        if terms.spreads:
            found |= too_many(pod, terms.spreads, self._nodes, self._on)
        if terms.ports:
            found |= {name for name, pods in self._on.items() if self._taken(pods, terms.ports)}
        return found

    def _repelled(self, pod: Pod) -> set[str]:
        """The nodes of which a pod that is there wants none such beside it; the same for all of equal labels."""
        if self._repelled_at != self.version:
            self._repelled_at, self._repelled_by = self.version, {}
        alike = pod.metadata.namespace, frozenset(pod.metadata.labels.items())
        if alike not in self._repelled_by:
            self._repelled_by[alike] = self._look_for_repelled(pod)
        return set(self._repelled_by[alike])

    def _look_for_repelled(self, pod: Pod) -> set[str]:
        places: dict[str, set[str]] = {}
        for key, (_, terms) in self._repel.items():
            labels = self._labels(self._where[key])
            for term in terms:
                if term.key in labels and term.means(pod, self.namespaces):
                    places.setdefault(term.key, set()).add(labels[term.key])
        return {name for key, some in places.items() for name in self._at(key, some)}

    def _places(self, term: Term) -> set[str]:
        """The places where a pod is that a term means."""
        return {
            labels[term.key]
            for name, pods in self._on.items()
            if term.key in (labels := self._labels(name))
            and any(term.means(other, self.namespaces) for other in pods.values())
        }

    def _without_all(self, pod: Pod, terms: tuple[Term, ...]) -> set[str]:
        """The nodes without the pods that it has to be beside; the first of all is beside itself, if it is one."""
        places = [set[str]() for _ in terms]
        for name, pods in self._on.items():
            labels = self._labels(name)
            if any(all(term.means(other, self.namespaces) for term in terms) for other in pods.values()):
                for term, some in zip(terms, places, strict=True):
                    some |= {labels[term.key]} if term.key in labels else set()
        first = not any(places) and all(term.means(pod, self.namespaces) for term in terms)
        return {
            name
            for name, node in self._nodes.items()
            if not all(
                term.key in node.metadata.labels and (first or node.metadata.labels[term.key] in some)
                for term, some in zip(terms, places, strict=True)
            )
        }

    def _taken(self, pods: Mapping[str, Pod], ports: tuple[Port, ...]) -> bool:
        return any(port.conflicts(other) for one in pods.values() for other in ports_of(one) for port in ports)

    def _at(self, key: str, places: set[str]) -> set[str]:
        """The nodes at some of the places that a label names."""
        return (
            {name for name, node in self._nodes.items() if node.metadata.labels.get(key) in places} if places else set()
        )

    def _labels(self, name: str) -> Labels:
        node = self._nodes.get(name)
        return {} if node is None else node.metadata.labels
