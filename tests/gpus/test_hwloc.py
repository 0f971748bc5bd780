from __future__ import annotations

import pytest
from machines_of import recorded, text

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.machine import NVSWITCH
from unrack.resources.gpus.machines.reading.read import machine_in


def test_version_1_gives_sockets_a_switch_and_gpus_in_the_order_of_their_addresses() -> None:
    found = recorded("v1_two_sockets.xml")
    assert found.distance.tolist() == [[0, 2, 44], [2, 0, 44], [44, 44, 0]]  # all GPUs are equally deep
    assert found.socket.tolist() == [0, 0, 1]
    assert found.cores == ((0, 1), (2, 3))
    assert found.model == "Tesla K80"
    assert len(found.gpus) == 3  # the display of the management board is none


def test_version_2_gives_host_bridges_nvlinks_and_cpus_of_masks() -> None:
    found = recorded("v2_nvlink.xml")
    assert found.distance.tolist() == [[0, 2, 1], [2, 0, 4], [1, 4, 0]]  # 0-2 NVLink; 0-1 PHB; 1-2 NODE
    assert found.cores == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert found.model == "Tesla V100-SXM2-16GB"


def test_switches_below_a_switch_are_several_switches() -> None:
    gpu = '<object type="PCIDev" pci_busid="{}" pci_type="0302 [10de:1db1] [10de:1212] a1"/>'
    leaf = '<object type="Bridge" bridge_type="1-1">{}{}</object>'
    pairs = [leaf.format(gpu.format(f"0000:{i}1:00.0"), gpu.format(f"0000:{i}2:00.0")) for i in (1, 2)]
    inner = f'<object type="Bridge" bridge_type="1-1">{"".join(pairs)}</object>'
    xml = (
        '<topology version="2.0"><object type="Machine"><object type="Package" cpuset="0x00000001,0x80000000">'
        f'<object type="Bridge" bridge_type="0-1">{inner}</object></object></object></topology>'
    )
    found = machine_in(xml)
    assert found.distance[0].tolist() == [0, 2, 4, 4]
    assert found.cores == ((31, 32),)


def test_links_to_an_nvswitch_make_one() -> None:
    device = '<object type="PCIDev" gp_index="{0}" pci_busid="0000:0{0}:00.0" pci_type="0302 [10de:1] [10de:1] a1"/>'
    switch = '<object type="PCIDev" gp_index="9" subtype="NVSwitch" pci_busid="0000:09:00.0" pci_type="0680 [10de:2]"/>'
    xml = (
        '<topology version="2.0"><object type="Machine"><object type="Package" cpuset="0x1">'
        f'{device.format(1)}{device.format(2)}{switch}</object></object><distances2hetero nbobjs="3" '
        'name="NVLinkBandwidth" indexing="gp"><indexes length="1">PCIDev:1 PCIDev:2 PCIDev:9</indexes>'
        '<u64values length="1">0 0 5 0 0 5 5 5 0</u64values></distances2hetero></topology>'
    )
    found = machine_in(xml)
    assert [vertex.kind for vertex in found.vertices].count(NVSWITCH) == 1
    assert found.distance[0, 1] == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</topology>", "", r"a\.xml, line \d+"),
        ("50000 0 1000000 </u64values>", "50000 </u64values>", "got 7 values, wanted 9"),
    ],
)
def test_files_that_are_damaged_are_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        machine_in(text("v2_nvlink.xml").replace(old, new), "a.xml")
    with pytest.raises(ClusterError, match="without objects"):
        machine_in("<topology></topology>")
