from __future__ import annotations

import numpy as np
import pytest
from machines_of import recorded, text

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.machine import NVSWITCH, SWITCH, Machine, preset
from unrack.resources.gpus.machines.reading.read import machine_in


def kinds(machine: Machine) -> list[str]:
    return [vertex.kind for vertex in machine.vertices]


def matrix(rows: str, tail: str = "CPU Affinity") -> str:
    lines = [line.split() for line in rows.strip().splitlines()]
    return "\t" + "\t".join([*(line[0] for line in lines), tail]) + "\n" + "\n".join("\t".join(line) for line in lines)


def test_a_minsky_is_read_as_the_preset() -> None:
    found = recorded("minsky.txt")
    assert found.distance.tolist() == [[0, 1, 42, 42], [1, 0, 42, 42], [42, 42, 0, 1], [42, 42, 1, 0]]
    assert np.array_equal(found.distance, preset("minsky").distance)
    assert found.cores == (tuple(range(80)), tuple(range(80, 160)))


def test_a_dgx_1_has_the_preset_s_switches_as_its_network_cards_tell_them() -> None:
    found, known = recorded("dgx1_v100.txt"), preset("dgx-1")
    assert np.array_equal(found.distance, known.distance)
    assert np.array_equal(found.switch, known.switch)
    assert np.array_equal(found.socket, known.socket)
    assert found.cores[1] == (*range(20, 40), *range(60, 80))


def test_a_dgx_a100_has_an_nvswitch_and_sockets_in_the_order_of_its_numa_nodes() -> None:
    found = recorded("dgx_a100.txt")
    assert kinds(found).count(NVSWITCH) == 1
    assert found.distance.tolist() == [[0 if a == b else 2 for b in range(8)] for a in range(8)]
    assert found.socket.tolist() == [1, 1, 0, 0, 3, 3, 2, 2]
    assert found.switch.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_an_hgx_h100_with_a_card_beside_each_gpu_has_no_switch_that_joins_gpus() -> None:
    found = recorded("hgx_h100.txt")
    assert kinds(found).count(NVSWITCH) == 1
    assert SWITCH not in kinds(found)
    assert len(found.gpus) == 8
    assert found.distance[0, 7] == 2
    assert [len(cores) for cores in found.cores] == [96, 96]


def test_a_pcie_server_has_switches_in_switches_and_levels_cost_more_the_further_out() -> None:
    found = recorded("pcie8.txt")
    first, second = found.distance[0].tolist(), found.distance[4].tolist()
    assert first == [0, 2, 4, 4, 46, 46, 46, 46]  # itself, PIX, PXB, SYS
    assert second == [46, 46, 46, 46, 0, 2, 6, 6]  # SYS, itself, PIX, NODE


def test_a_workstation_has_two_gpus_on_its_socket() -> None:
    found = recorded("workstation.txt")
    assert found.distance.tolist() == [[0, 2], [2, 0]]
    assert SWITCH not in kinds(found)
    assert found.cores == (tuple(range(32)),)


def test_a_single_gpu_with_mig_has_its_model_and_slices() -> None:
    found = recorded("single.txt")
    assert (len(found.gpus), found.model, found.slices) == (1, "NVIDIA A30", 4)
    assert found.cores == (tuple(range(16)),)


def test_four_gpus_all_linked_have_direct_links_and_no_nvswitch() -> None:
    rows = [f"GPU{a} " + " ".join("X" if a == b else "NV12" for b in range(4)) + " 0-31" for a in range(4)]
    found = machine_in(matrix("\n".join(rows)))
    assert NVSWITCH not in kinds(found)
    assert found.distance[0].tolist() == [0, 1, 1, 1]


def test_phb_joins_within_a_host_bridge_and_node_between_them() -> None:
    found = machine_in(
        matrix("GPU0 X PHB NODE 0-7\nGPU1 PHB X NODE 0-7\nGPU2 NODE NODE X 0-7")
    )  # fmt: skip
    assert found.distance.tolist() == [[0, 2, 4], [2, 0, 4], [4, 4, 0]]


def test_without_affinity_words_tell_the_sockets() -> None:
    found = machine_in(matrix("GPU0 X NV1 SYS N/A\nGPU1 NV1 X SYS N/A\nGPU2 SYS SYS X N/A"))
    assert found.socket.tolist() == [0, 0, 1]
    assert found.distance.tolist() == [[0, 1, 42], [1, 0, 42], [42, 42, 0]]
    assert found.cores == ()


def test_escapes_blanks_for_tabs_and_a_prompt_before_it_change_nothing() -> None:
    plain = text("minsky.txt").replace("\x1b[4m", "").replace("\x1b[0m", "").replace("\t", "    ")
    assert "\x1b" in text("minsky.txt")
    found = machine_in("$ nvidia-smi topo -m\n" + plain)
    assert np.array_equal(found.distance, recorded("minsky.txt").distance)
    assert found.cores == recorded("minsky.txt").cores


def test_no_path_between_gpus_leads_through_a_gpu() -> None:
    found = machine_in(matrix("GPU0 X NV1 SYS 0-3\nGPU1 NV1 X NV1 4-7\nGPU2 SYS NV1 X 4-7"))
    assert found.distance[0, 2] == 42  # not 2, over GPU 1


@pytest.mark.parametrize(
    ("rows", "line", "said"),
    [
        ("GPU0 X NVX 0-3\nGPU1 NVX X 0-3", 2, "got NVX, wanted one of PIX"),
        ("GPU0 X PIX 0-3\nGPU1 SYS X 0-3", 2, "got PIX, but SYS the other way"),
        ("GPU0 PIX X 0-3\nGPU1 PIX X 0-3", 2, "got PIX, wanted X"),
        ("GPU0 X PIX 0-3\nGPU1 PIX", 3, "got 1 words for GPU1, wanted 2"),
        ("GPU0 X PIX 0-3\nGPU1 PIX X 9-3", 3, "got 9-3, wanted ranges of CPUs"),
        ("GPU0 X PIX zero\nGPU1 PIX X 3", 2, "got zero, wanted numbers of CPUs"),
    ],
)
def test_what_cannot_be_is_an_error_that_names_the_line(rows: str, line: int, said: str) -> None:
    with pytest.raises(ClusterError) as error:
        machine_in(matrix(rows), "m.txt")
    assert f"m.txt, line {line}" in str(error.value)
    assert said in str(error.value)


def test_a_matrix_that_was_cut_off_is_refused() -> None:
    cut = "".join(text("dgx1_v100.txt").splitlines(keepends=True)[:5])
    with pytest.raises(ClusterError, match="no row for GPU4"):
        machine_in(cut)


def test_numactl_gives_cpus_and_sockets_without_gpus() -> None:
    found = recorded("dgx_a100.txt", "dgx_a100_numactl.txt")
    assert found.socket.tolist() == [3, 3, 1, 1, 7, 7, 5, 5]
    assert found.cores[0] == (*range(16), *range(128, 144))
    between = found.between[found.sockets[0]][list(found.sockets)]
    assert between.tolist() == [0, 4, 4, 4, 40, 40, 40, 40]  # 12 and 32 to numactl, where local is 10


def test_both_tools_in_one_file_say_the_same_as_in_two() -> None:
    both = machine_in(text("minsky_numactl.txt") + "\n" + text("minsky.txt"))
    two = recorded("minsky.txt", "minsky_numactl.txt")
    assert np.array_equal(both.between, two.between)
    assert both.cores == two.cores == (tuple(range(80)), tuple(range(80, 160)))


def test_numactl_alone_is_a_machine_without_gpus() -> None:
    found = recorded("dgx1_v100_numactl.txt")
    assert (len(found.gpus), len(found.sockets)) == (0, 2)


def test_nodes_without_cpus_are_no_sockets() -> None:
    nodes = "node 0 cpus: 0 1\nnode 0 size: 9 MB\nnode 255 cpus:\nnode 255 size: 9 MB\nnode distances:\nnode   0 255\n"
    found = machine_in(nodes + "  0:  10  80\n255:  80  10\n")
    assert found.cores == ((0, 1),)


def test_numactl_of_another_machine_is_refused() -> None:
    with pytest.raises(ClusterError, match="GPU 4 near node 1 with CPU 20"):
        machine_in(text("dgx1_v100.txt"), cpus="node 0 cpus: " + " ".join(map(str, [*range(20), *range(40, 60)])))
    with pytest.raises(ClusterError, match=r"line 4.*got 1 distances of node 0, wanted 2"):
        machine_in("node 0 cpus: 0\nnode distances:\nnode 0 1\n 0: 10\n")
