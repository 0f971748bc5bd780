"""Placement on nodes that lend memory, in plain Python over dictionaries: slow, to be read beside the documentation.

Written from the rules alone, before the compiled placement was looked at: the tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

RULES = ("strawman", "naive", "local", "local-spread", "disaggregated")
"""In the order of the numbers that the compiled placement knows them by."""
THRESHOLDS = {"strawman": 0.0, "naive": 0.0, "local": 0.5, "local-spread": 0.5, "disaggregated": 1.0}
"""The share of a node's memory that must be free for it to compute, unless the user says otherwise."""
EVERYBODY = -1
"""The lending group of memory that reaches all nodes."""


class Ask(NamedTuple):
    """What a job asks for: tasks, and per task cores and MB."""

    tasks: int
    cores: int
    mb: int


@dataclass
class Place:
    """Where a job runs and whose memory it uses.

    ``tasks`` and ``local``: compute node → tasks there, MB of its own memory; in the order in which nodes were taken.
    ``loans``: (compute node, lender) → MB.
    """

    tasks: dict[int, int]
    local: dict[int, int] = field(default_factory=dict)
    loans: dict[tuple[int, int], int] = field(default_factory=dict)

    def uses(self) -> dict[int, int]:
        """Node → MB of its memory that the job uses."""
        used = dict(self.local)
        for (_, lender), mb in self.loans.items():
            used[lender] = used.get(lender, 0) + mb
        return used

    def rows(self, total: Sequence[Sequence[int]]) -> list[list[int]]:
        """By node: the node, 1, tasks, cores (all of the node's), MB of its memory."""
        return [[node, 1, self.tasks[node], total[0][node], self.local[node]] for node in sorted(self.tasks)]

    def loan_rows(self) -> list[list[int]]:
        """By borrower and lender: both, and MB."""
        return [[borrower, lender, mb] for (borrower, lender), mb in sorted(self.loans.items())]


class Nodes:
    """What is free, and what a job that is being placed has left of it."""

    def __init__(self, free: Sequence[Sequence[int]], total: Sequence[Sequence[int]], group: Sequence[int]) -> None:
        self.cores, self.mb = list(total[0]), list(total[1])
        self.free_mb = list(free[1])
        self.left = list(free[1])
        own = {g for g in group if g != EVERYBODY}
        self.group = [0] * len(group) if len(own) == 1 else list(group)  # with one group, all are members of it
        self.ids = range(len(self.cores))
        self.idle = [self.cores[node] > 0 and free[0][node] == self.cores[node] for node in self.ids]
        self.lends = [self.idle[node] and self.free_mb[node] < self.mb[node] for node in self.ids]
        self.groups = sorted({g for g in self.group if g != EVERYBODY})

    def eligible(self, threshold: float) -> list[int]:
        """Idle nodes with at least this share of their memory free, by id."""
        return [node for node in self.ids if self.idle[node] and self.free_mb[node] >= threshold * self.mb[node]]

    def tasks(self, node: int, ask: Ask) -> int:
        """How many tasks the cores of a whole node hold."""
        return self.cores[node] // ask.cores if ask.cores else ask.tasks

    def of_group(self, group: int) -> list[int]:
        """The nodes of a lending group, by id."""
        return [node for node in self.ids if self.group[node] == group]


def place(
    rule: str,
    free: Sequence[Sequence[int]],
    total: Sequence[Sequence[int]],
    group: Sequence[int],
    ask: Ask,
    threshold: float | None = None,
) -> Place | None:
    """Where a job would go by a rule; ``None``: nowhere now. ``free`` and ``total``: cores and MB by node."""
    nodes = Nodes(free, total, group)
    candidates = nodes.eligible(THRESHOLDS[rule] if threshold is None else threshold)
    if rule == "disaggregated":
        home = first_fit(nodes, candidates, ask)
        if home is not None:
            return home
        candidates.sort(key=lambda node: (-nodes.free_mb[node], node))
    taken = select(nodes, candidates, ask)
    if taken is None:
        return None
    found = Place(taken, dict.fromkeys(taken, 0))
    lacks = {node: tasks * ask.mb for node, tasks in taken.items()}
    if rule not in ("strawman", "naive"):
        for node, lack in lacks.items():
            found.local[node] = min(nodes.left[node], lack)
            nodes.left[node] -= found.local[node]
            lacks[node] -= found.local[node]
    for group in dict.fromkeys(nodes.group[node] for node in taken if lacks[node]):
        Borrow(nodes, found, lacks, [node for node in taken if nodes.group[node] == group]).by_rule(rule)
    assert not any(lacks.values()), "the nodes taken have no memory for the job"
    return found


def first_fit(nodes: Nodes, candidates: Iterable[int], ask: Ask) -> Place | None:
    """Nothing borrowed: as many tasks on each node, by id, as its cores and its own free memory hold."""
    found, left = Place({}), ask.tasks
    for node in candidates:
        here = min(nodes.tasks(node, ask), left)
        if ask.mb:
            here = min(here, nodes.free_mb[node] // ask.mb)
        if here:
            found.tasks[node], found.local[node] = here, here * ask.mb
            left -= here
    return None if left else found


def select(nodes: Nodes, candidates: Iterable[int], ask: Ask) -> dict[int, int] | None:
    """Node → tasks, in the order of the candidates; a node is passed over where memory would not suffice with it."""
    taken: dict[int, int] = {}
    left = ask.tasks
    for node in candidates:
        here = min(nodes.tasks(node, ask), left)
        if here and suffices(nodes, {**taken, node: here}, ask):
            taken[node] = here
            left -= here
    return None if left else taken


def suffices(nodes: Nodes, taken: dict[int, int], ask: Ask) -> bool:
    """Whether there is memory for the tasks on these nodes: of their groups, and of the nodes that reach all."""
    beyond = 0
    for group in nodes.groups:
        need = sum(tasks * ask.mb for node, tasks in taken.items() if nodes.group[node] == group)
        beyond += max(0, need - sum(nodes.free_mb[node] for node in nodes.of_group(group)))
    return beyond <= sum(nodes.free_mb[node] for node in nodes.of_group(EVERYBODY))


@dataclass
class Borrow:
    """What the compute nodes of one lending group borrow."""

    nodes: Nodes
    found: Place
    lacks: dict[int, int]
    own: list[int]

    def by_rule(self, rule: str) -> None:
        """All that the nodes lack: first within the group; from nodes that reach all only what it has not."""
        if rule in ("strawman", "naive"):
            self.gather(own_first=rule == "naive")
            return
        for group in (self.nodes.group[self.own[0]], EVERYBODY):
            lenders = [node for node in self.nodes.of_group(group) if node not in self.found.tasks]
            if rule != "local":
                lenders.sort(key=self.class_of)
                self.one_each(lenders)
            self.one_after_the_other(lenders)
            if group != EVERYBODY:
                self.one_after_the_other(sorted(self.own))

    def lend(self, node: int, lender: int, most: int) -> int:
        """Let a compute node have up to ``most`` MB of what it lacks from a lender; returns how much it was."""
        mb = min(self.lacks[node], most)
        if mb:
            self.found.loans[node, lender] = self.found.loans.get((node, lender), 0) + mb
            self.lacks[node] -= mb
            self.nodes.left[lender] -= mb
        return mb

    def class_of(self, node: int) -> tuple[int, int, int]:
        """Best first: who lends already or has no cores, then who is busy, then who is idle and whole."""
        nodes = self.nodes
        if nodes.cores[node] == 0 or nodes.lends[node]:
            return 0, -nodes.free_mb[node], node
        if not nodes.idle[node]:
            return 1, -nodes.free_mb[node], node
        return 2, nodes.free_mb[node], node

    def one_each(self, lenders: list[int]) -> None:
        """A lender of its own for every compute node, in one pass over the lenders."""
        ahead = iter(lenders)
        for node in self.own:
            if self.lacks[node]:
                lender = next((lender for lender in ahead if self.nodes.left[lender] >= self.lacks[node]), None)
                if lender is not None:
                    self.lend(node, lender, self.lacks[node])

    def one_after_the_other(self, lenders: list[int]) -> None:
        """Each lender used up before the next, whoever borrows."""
        for node in self.own:
            for lender in lenders:
                self.lend(node, lender, self.nodes.left[lender])

    def gather(self, own_first: bool) -> None:
        """Strawman and naive: first the memory, wherever it is, then who gets which part of it."""
        nodes, lacks = self.nodes, self.lacks
        order = nodes.of_group(nodes.group[self.own[0]]) + nodes.of_group(EVERYBODY)
        if own_first:
            order = self.own + [node for node in order if node not in self.own]
        need = sum(lacks[node] for node in self.own)
        gathered: dict[int, int] = {}
        for node in order:
            gathered[node] = min(nodes.left[node], need)
            need -= gathered[node]
        for node in self.own:
            self.found.local[node] = min(gathered[node], lacks[node])
            gathered[node] -= self.found.local[node]
            nodes.left[node] -= self.found.local[node]
            lacks[node] -= self.found.local[node]
        for node in self.own:
            for lender in order:
                gathered[lender] -= self.lend(node, lender, gathered[lender])
