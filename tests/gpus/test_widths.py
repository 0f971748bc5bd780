"""How many NVLinks join two GPUs counts: distances, choices and rules, against plain searches that know links alone."""

from __future__ import annotations

from itertools import combinations

import pytest
from machines_of import recorded, text

from unrack.errors import ClusterError
from unrack.live.machine.pick import choose
from unrack.resources.gpus.machines.drawing import draw
from unrack.resources.gpus.machines.machine import NVLINK, Machine, preset, tree
from unrack.resources.gpus.machines.reading.read import machine_in
from unrack.resources.gpus.machines.written import written_toml

NEAR_ONES = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
"""Pairs of GPUs of a DGX-1 with two NVLinks."""


def matrix(words: dict[tuple[int, int], str], count: int, sockets: int = 1) -> Machine:
    rows = ["\t".join(["", *(f"GPU{i}" for i in range(count)), "CPU Affinity"])]
    for a in range(count):
        own = ["X" if a == b else words.get((min(a, b), max(a, b)), "SYS") for b in range(count)]
        rows.append("\t".join([f"GPU{a}", *own, str(a * sockets // count)]))
    return machine_in("\n".join(rows))


def of_the_words(name: str) -> dict[tuple[int, int], float]:
    """Pair → how many links the recorded matrix prints; by columns, with nothing of the reader."""
    rows = [line.split() for line in text(name).splitlines() if line.startswith("GPU")]
    return {
        (a, b): int(word[2:])
        for a, row in enumerate(rows) for b, word in enumerate(row[1 : len(rows) + 1])
        if word.startswith("NV") and a < b
    }  # fmt: skip


@pytest.mark.parametrize("machine", [preset("dgx-1"), recorded("dgx1_v100.txt")], ids=["preset", "matrix"])
def test_two_gpus_of_a_dgx_1_have_two_nvlinks_wherever_such_a_pair_is_free(machine: Machine) -> None:
    links = of_the_words("dgx1_v100.txt")
    assert {pair for pair, count in links.items() if count == 2} == NEAR_ONES
    for held in range(256):
        free = [gpu for gpu in range(8) if not held >> gpu & 1]
        if len(free) >= 2:
            found = choose(machine, 2, set(range(8)) - set(free))
            assert found is not None
            assert links.get(found.gpus, 0) == max(links.get(pair, 0) for pair in combinations(free, 2)), free


def test_sets_of_every_size_of_a_dgx_1_have_the_least_sum_by_links_alone() -> None:
    """Paths by hand: two links 1, one link 1.5, else over the switches: 4 in a socket, 44 between sockets."""
    links, machine = of_the_words("dgx1_v100.txt"), preset("dgx-1")

    def cost(pair: tuple[int, int]) -> float:
        return {2: 1.0, 1: 1.5}.get(int(links.get(pair, 0)), 4.0 if pair[0] // 4 == pair[1] // 4 else 44.0)

    for held in range(0, 256, 5):
        free = [gpu for gpu in range(8) if not held >> gpu & 1]
        for wanted in range(1, len(free) + 1):
            found = choose(machine, wanted, set(range(8)) - set(free))
            assert found is not None
            sums = [sum(map(cost, combinations(gpus, 2))) for gpus in combinations(free, wanted)]
            assert found.distance == sum(map(cost, combinations(found.gpus, 2))) == min(sums)


def test_the_wider_a_direct_link_is_the_nearer_and_a_switch_is_further_than_any() -> None:
    words = {(0, b): f"NV{b}" for b in range(1, 5)} | dict.fromkeys(combinations(range(1, 5), 2), "PIX")
    found = matrix(words, 5).distance
    assert found[0, 4] == 1
    assert found[0, 4] < found[0, 3] < found[0, 2] < found[0, 1] < found[1, 2] == 2


def test_links_that_are_all_as_wide_and_those_of_an_nvswitch_weigh_as_before() -> None:
    for width in (1, 2, 4, 12, 18):
        four = matrix(dict.fromkeys(combinations(range(4), 2), f"NV{width}"), 4).distance
        assert {four[pair] for pair in combinations(range(4), 2)} == {1}
        eight = matrix(dict.fromkeys(combinations(range(8), 2), f"NV{width}"), 8).distance
        assert {eight[pair] for pair in combinations(range(8), 2)} == {2}
    assert preset("minsky").distance.tolist() == [[0, 1, 42, 42], [1, 0, 42, 42], [42, 42, 0, 1], [42, 42, 1, 0]]


def test_a_gpu_with_fewer_links_to_the_nvswitch_is_further_from_all() -> None:
    words = {(a, b): "NV18" if a else "NV9" for a, b in combinations(range(8), 2)}
    found = matrix(words, 8, sockets=8).distance
    assert found[0, 1:].tolist() == [2.5] * 7
    assert found[1, 2:].tolist() == [2] * 6


def test_hwloc_says_how_wide_links_are_by_their_bandwidth() -> None:
    xml = text("v2_nvlink.xml")
    known = recorded("v2_nvlink.xml")
    assert [known.cost(link) for link in known.links if link.kind == NVLINK] == [1]
    other = xml.replace('"40">1000000 0 50000 0 1000000 0 ', '"40">1000000 25000 50000 25000 1000000 0 ')
    assert other != xml
    found = machine_in(other)
    assert sorted(found.cost(link) for link in found.links if link.kind == NVLINK) == [1, 1.5]


def test_a_file_of_one_s_own_says_widths_and_is_written_with_them() -> None:
    box = "[[sockets]]\ngpus = [0, 1, 2]\n" + "".join(
        f"[[links]]\nbetween = [{a}, {b}]\nwidth = {width}\n" for a, b, width in [(0, 1, 1), (1, 2, 4)]
    )
    found = machine_in(box)
    assert found.distance.tolist() == [[0, 1.75, 2], [1.75, 0, 1], [2, 1, 0]]
    assert machine_in(written_toml(found)).distance.tolist() == found.distance.tolist()
    again = machine_in(written_toml(preset("dgx-1")))
    assert again.distance.tolist() == preset("dgx-1").distance.tolist()
    assert sorted(link.width for link in again.links) == sorted(link.width for link in preset("dgx-1").links)
    with pytest.raises(ClusterError, match=r"width.*got 2 of a link of the kind pcie"):
        machine_in('base = "minsky"\n[[links]]\nbetween = [0, 1]\nkind = "pcie"\nwidth = 2\n')


def test_a_link_that_a_file_adds_to_a_preset_counts_beside_its_widths() -> None:
    found = machine_in('base = "dgx-1"\n[[links]]\nbetween = [0, 5]\nwidth = 4\n').distance
    assert (found[0, 5], found[0, 3], found[0, 1]) == (1, 1.5, 1.75)


def test_a_bandwidth_of_nvlink_is_that_of_each_of_several() -> None:
    found = machine_in('base = "dgx-1"\ngb_s = {pcie = 10, bus = 20, nvlink = 25}\n')
    assert (found.distance[0, 3], found.distance[0, 1]) == (20, 40)


def test_widths_are_drawn_as_thickness_and_said() -> None:
    picture = draw(preset("dgx-1"))
    assert picture.count('stroke-width="3.0"') == picture.count('stroke-width="1.5"') == 8
    assert "from the widest, weight 1 or 1.5" in picture
    assert 'stroke-width="3.0"' not in draw(tree("all", [[2], [2]], {(0, 1): 2, (2, 3): 2}))
