from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
from machines_of import RECORDED

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.drawing import draw
from unrack.resources.gpus.machines.reading.read import machine_in
from unrack.resources.gpus.machines.written import written_toml

PIECES = ("9", "-1", " ", "\t", "\n", "X", "GPU1", "NV1", "SYS", "<", '"', "0", "é", "²")


def damaged(text: str, draw_from: random.Random) -> str:
    for _ in range(draw_from.randint(1, 3)):
        at, way = draw_from.randrange(len(text)), draw_from.random()
        if way < 0.4:
            text = text[:at] + text[at + draw_from.choice((1, 2, 5, 20, 200)) :] or " "
        elif way < 0.7:
            text = text[:at] + draw_from.choice(PIECES) + text[at:]
        else:
            other = draw_from.randrange(len(text))
            text = text[:at] + text[other : other + 30] + text[at:]
    return text


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.iterdir()))
def test_a_damaged_file_is_an_error_or_a_whole_machine(name: str) -> None:
    draw_from, text = random.Random(name), (RECORDED / name).read_text()
    machines = []
    for _ in range(150):
        with suppress(ClusterError):
            machines.append(machine_in(damaged(text, draw_from), name))
    for machine in machines:
        assert draw(machine)
        assert np.array_equal(machine_in(written_toml(machine)).distance, machine.distance)
    assert 0 < len(machines) < 150


def test_the_number_of_a_cpu_must_be_one() -> None:
    text = (RECORDED / "v2_nvlink.xml").read_text().replace('"PU" os_index="2"', '"PU" os_index="two"')
    with pytest.raises(ClusterError, match="os_index of a PU: got 'two'"):
        machine_in(text)


def test_distances_that_no_system_prints_still_make_a_machine() -> None:
    nodes = "".join(f"node {node} cpus: {node}\n" for node in range(3))
    found = machine_in(nodes + "node distances:\nnode 0 1 2\n 0: 10 9 10\n 1: 9 10 10\n 2: 10 10 10\n")
    assert len(found.sockets) == 3
