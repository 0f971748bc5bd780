"""Binding to the memory of a socket, with a stand-in for numactl."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unrack.live.machine import here
from unrack.live.machine.execute import execute
from unrack.live.machine.plan import WantedGpus
from unrack.resources.gpus.machines.machine import Machine, tree

USABLE = sorted(os.sched_getaffinity(0))


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three NUMA nodes, the last without memory; a numactl that tells how it was called; and what it told."""
    folder = tmp_path / "node"
    for node, cpus in enumerate(("900-907", ",".join(map(str, USABLE)), "908-915")):
        (folder / f"node{node}").mkdir(parents=True)
        (folder / f"node{node}" / "cpulist").write_text(f"{cpus}\n")
    (folder / "has_memory").write_text("0-1\n")
    tool = tmp_path / "bin" / "numactl"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n[ "$1" = --membind=0 ] && exit 1\nshift\nexec "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(here, "NODES", folder)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return tmp_path / "calls"


def box(*sockets: tuple[int, ...]) -> Machine:
    return tree("box", [[1] for _ in sockets], cores=sockets)


def test_nodes_are_those_with_memory_that_have_some_of_the_cpus(nodes: Path) -> None:
    assert here.nodes_of((903, USABLE[0])) == (0, 1)
    assert here.nodes_of((910,)) == ()


def test_memory_is_bound_where_all_gpus_are_on_one_socket(nodes: Path, tmp_path: Path) -> None:
    code = execute(box(tuple(USABLE), ()), WantedGpus(1), ["sh", "-c", "exit 3"], tmp_path / "claims")
    assert code == 3
    assert nodes.read_text().splitlines() == ["--membind=1 true", "--membind=1 sh -c exit 3"]


def test_memory_is_not_bound_where_gpus_are_on_several_sockets(nodes: Path, tmp_path: Path) -> None:
    assert execute(box(tuple(USABLE), ()), WantedGpus(2), ["sh", "-c", "exit 3"], tmp_path / "claims") == 3
    assert not nodes.exists()


def test_memory_is_not_bound_where_that_is_not_allowed(nodes: Path) -> None:
    assert here.can_bind_memory((1,))
    assert not here.can_bind_memory((0,))
    assert not here.can_bind_memory(())
