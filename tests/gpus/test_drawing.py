from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from machines_of import RECORDED, recorded

from unrack.resources.gpus.machines.drawing import GPU_SIDE, Layout, draw
from unrack.resources.gpus.machines.machine import GPU, NVLINK, PRESETS, SOCKET, Machine, preset
from unrack.resources.gpus.machines.reading.read import machine_in

SVG = "{http://www.w3.org/2000/svg}"
MACHINES = [
    *(preset(name) for name in PRESETS),
    *(recorded(path.name) for path in sorted(RECORDED.iterdir())),
    recorded("dgx_a100.txt", "dgx_a100_numactl.txt"),
    machine_in("[[sockets]]\ngpus = [0, 1, 2]\n[[links]]\nbetween = [0, 2]\nweight = 3\n[[links]]\nbetween = [0, 1]"),
]
EACH = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def texts(root: ElementTree.Element) -> list[tuple[float, float, float, float, str]]:
    """Left, top, right, bottom and words of each text, with letters as wide as they get."""
    found = []
    for one in root.iter(f"{SVG}text"):
        size = float(one.get("font-size", "12"))
        words = one.text or ""
        width = 0.55 * size * len(words)
        x, y = float(one.get("x", "0")), float(one.get("y", "0"))
        left = x - width / 2 if one.get("text-anchor") == "middle" else x
        found.append((left, y - 0.75 * size, left + width, y + 0.1 * size, words))
    return found


@EACH
def test_no_text_covers_another_and_none_is_cut_off(machine: Machine) -> None:
    held = {gpu: f"a job of some name, number {gpu // 2}" for gpu in range(len(machine.gpus))}
    root = ElementTree.fromstring(draw(machine, held))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    boxes = texts(root)
    for i, (left, top, right, bottom, words) in enumerate(boxes):
        assert left >= 0, words
        assert top >= 0, words
        assert right <= width, words
        assert bottom <= height, words
        for other in boxes[i + 1 :]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, f"{words!r} and {other[4]!r}"


@EACH
def test_every_gpu_is_in_its_socket_and_none_on_another(machine: Machine) -> None:
    layout = Layout(machine)
    for number, vertex in enumerate(machine.gpus):
        box = layout.boxes[machine.sockets[machine.socket[number]]]
        assert box.x + GPU_SIDE / 2 < layout.gpu_x[vertex] < box.x + box.width - GPU_SIDE / 2
        assert box.y < layout.gpu_y < box.y + box.height - GPU_SIDE
    places = sorted(layout.gpu_x.values())
    assert all(b - a > GPU_SIDE for a, b in pairwise(places))


@EACH
def test_every_link_is_drawn_or_told(machine: Machine) -> None:
    svg = draw(machine)
    drawn = sum(svg.count(f'class="{kind}"/>') for kind in ("pcie", "bus", "nvlink"))
    headers = sum(vertex.kind == SOCKET for vertex in machine.vertices)
    told = len(re.findall(r"socket \d+–socket \d+", svg))
    assert drawn - headers + told == len(machine.links)
    assert svg.count('class="nvlink"/>') == sum(link.kind == NVLINK for link in machine.links)
    assert svg.count('class="gpu"') == sum(vertex.kind == GPU for vertex in machine.vertices)


def test_gpus_of_a_job_have_its_colour_and_its_name() -> None:
    svg = draw(preset("minsky"), {0: "a <b>", 1: "a <b>", 3: "c"})
    colours = re.findall(r'<title>GPU (\d)[^<]*</title><rect [^>]*?(?:style="fill:(#\w+)")?/>', svg)
    assert dict(colours)["0"] == dict(colours)["1"] != dict(colours)["3"]
    assert dict(colours)["2"] == ""
    assert "a &lt;b&gt;: GPU 0, 1" in svg
    assert "c: GPU 3" in svg


def test_weights_of_direct_links_stand_beside_them_only_where_they_differ() -> None:
    assert "of-nvlink weight" not in draw(preset("dgx-1"))
    assert draw(MACHINES[-1]).count("of-nvlink weight") == 2


def test_slices_are_parts_of_a_gpu() -> None:
    assert draw(preset("hgx-h100-mig")).count('class="slice"/>') == 8 * 7
    assert "8 H100 GPUs, each in 8 slices" in draw(preset("hgx-h100-mig"))
