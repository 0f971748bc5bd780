from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.cluster.formats.described import Converted, converted
from unrack.cluster.formats.reading import described
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError
from unrack.kubernetes_text import quantity

SAMPLES = Path(__file__).parent / "samples"
CONF = (SAMPLES / "slurm.conf").read_text()
KUBECTL = (SAMPLES / "kubectl.json").read_text()


def read(name: str, text: str | None = None, **options: object) -> Converted:
    path = SAMPLES / name
    system = described(path, path.read_text() if text is None else text, name)
    assert system is not None
    return converted(system, **options)


def test_a_slurm_conf_is_its_nodes_with_gpus_and_licences() -> None:
    made = read("slurm.conf").content
    assert made["name"] == "lab"
    assert made["nodes"] == [
        {"count": 2, "cores": 64, "memory": 512000, "name": "g[1-2]", "names": "g[1-2]"},
        {"count": 4, "cores": 64, "memory": 250000, "name": "cn[001-003,010]", "names": "cn[001-003,010]"},
        {"count": 1, "cores": 128, "memory": 2048000, "name": "fat1", "names": "fat1"},
    ]
    assert made["gpus"] == [{"nodes": "0-1", "machine": {"gpus": 4, "model": "a100"}}]
    assert made["counted"] == [{"name": "matlab", "amount": 20}, {"name": "ansys_flex", "amount": 4}]


@pytest.mark.parametrize(
    "words",
    ["not-there.conf", "CR_Core does not count memory", "hardware thread", "DefMemPerCPU=2000",
     "(down: 2, drain: 1)", "4 nvme"],
)  # fmt: skip
def test_what_a_cluster_file_cannot_have_is_said(words: str) -> None:
    assert [note for note in read("slurm.conf").notes if words in note]


def test_nodes_of_one_partition_and_nodes_that_are_down_can_be_asked_for() -> None:
    assert [kind["name"] for kind in read("slurm.conf", partition="gpu").content["nodes"]] == ["g[1-2]"]
    names = [kind["name"] for kind in read("slurm.conf", all_nodes=True).content["nodes"]]
    assert names == ["g[1-2]", "cn[001-004,010]", "fat1", "old[1-2]"]
    with pytest.raises(ClusterError, match="one of batch, gpu"):
        read("slurm.conf", partition="debug")


@pytest.mark.parametrize("name", ["scontrol-node.txt", "scontrol-o-node.txt", "sinfo.json"])
def test_nodes_that_slurm_showed_are_alike_however_it_showed_them(name: str) -> None:
    made = read(name).content
    assert made["nodes"] == [{"count": 4, "cores": 8, "memory": 32000, "name": "n[1-4]", "names": "n[1-4]"}]
    assert made["gpus"] == [{"nodes": "0-3", "machine": {"gpus": 2, "model": "a100"}}]
    assert Cluster.from_dict(made).names == ("n1", "n2", "n3", "n4")


def test_nodes_that_are_drained_stay_out() -> None:
    text = (SAMPLES / "scontrol-node.txt").read_text().replace("State=MIXED", "State=MIXED+DRAIN", 1)
    made = read("scontrol-node.txt", text)
    assert sum(kind["count"] for kind in made.content["nodes"]) == 3
    assert "1 node left out (drain: 1); --all-nodes keeps them." in made.notes


def test_nodes_of_kubernetes_have_what_is_allocatable() -> None:
    made = read("kubectl.json")
    assert made.content["nodes"] == [
        {"count": 1, "cores": 7, "memory": 32012, "name": "node-a", "names": "node-a", "rack": "zone-1"},
        {"count": 1, "cores": 4, "memory": 16384, "name": "node-b", "names": "node-b", "rack": "zone-2"},
    ]
    assert made.content["gpus"][0]["machine"] == {"gpus": 2, "model": "NVIDIA-A100-SXM4-40GB"}
    assert "2 nodes left out (cordoned: 1, of the control plane: 1); --all-nodes keeps them." in made.notes
    system = described(SAMPLES / "kubectl.json", KUBECTL, "x", milli=True)
    assert system is not None
    assert system.nodes[0].cores == 7910


@given(st.integers(0, 2**40), st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_quantities_are_exact(number: int, unit: str) -> None:
    factor = {"": 1, "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    if number * factor[unit] < 2**62:
        assert quantity(f"{number}{unit}") == number * factor[unit]


@pytest.mark.parametrize("name", ["slurm.conf", "scontrol-node.txt", "kubectl.json"])
def test_a_study_can_name_the_file_itself(name: str) -> None:
    cluster = Cluster.load(SAMPLES / name)
    assert cluster.total_cores == sum(kind["count"] * kind["cores"] for kind in read(name).content["nodes"])


@pytest.mark.parametrize("name", ["slurm.conf", "scontrol-o-node.txt", "sinfo.json", "kubectl.json"])
def test_the_command_writes_the_same_cluster(name: str, tmp_path: Path) -> None:
    packed = tmp_path / f"{name}.gz"
    out = tmp_path / "cluster.toml"
    done = CliRunner().invoke(app, ["cluster", "convert", str(SAMPLES / name), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert Cluster.load(out).cores.tolist() == Cluster.load(SAMPLES / name).cores.tolist()
    if name != "slurm.conf":
        packed.write_bytes(gzip.compress((SAMPLES / name).read_bytes()))
        assert CliRunner().invoke(app, ["cluster", "convert", str(packed), "--out", str(out)]).exit_code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CONF.replace("cn[001-004,010]", "cn[001-", 1), "line 13, NodeName"),
        (CONF.replace("RealMemory=2048000", "RealMemory=2TB"), "line 16, RealMemory: got '2TB', wanted a whole number"),
        (CONF.replace("matlab:20", "matlab:x:y"), "Licenses"),
        ("ClusterName=x\nInclude nodes.conf\n", "no line NodeName=… (nodes.conf is included and was not there)"),
        (KUBECTL.replace('"7910m"', '"eight"'), "items.0, status.allocatable.cpu: got 'eight', wanted a quantity"),
        (KUBECTL[:500], "damaged JSON"),
        ("---\napiVersion: v1\nkind: List\n", "got YAML, wanted the same as JSON: kubectl get"),
        (json.dumps({"kind": "List", "items": []}), "no node"),
        (json.dumps({"nodes": []}), "no list of nodes"),
        (
            json.dumps({"partitions": [], "errors": []}),
            "JSON of partitions, wanted the same as text: scontrol show part",
        ),
        (json.dumps({"reservations": []}), "JSON of reservations, wanted the same as text: scontrol show reservation"),
        ((SAMPLES / "sinfo.json").read_text().replace('"name": "n1"', '"name": "n 1"'), "got 'n 1', wanted a name of"),
        ("\nsn,cpu_milli,memory_mib,gpu,model\nn[],9000,1,1,P\n", "line 3, sn: got 'n[]', wanted a name of a host"),
        ("NodeName=n1 =x CPUTot=4 RealMemory=9\n", "line 1, NodeName: got 'n1 =x', wanted a name of a host"),
    ],
)
def test_a_broken_description_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read("slurm.conf", text)
    assert words in str(caught.value)


def test_a_file_of_another_kind_is_refused_with_what_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello\n")
    done = CliRunner().invoke(app, ["cluster", "convert", str(tmp_path / "x.txt"), "--out", str(tmp_path / "c.toml")])
    assert isinstance(done.exception, ClusterError)
    assert "scontrol show node" in str(done.exception)


ODD = ["=", "", "\n", "0", "-1", "9" * 30, "[", "]", ",", "null", '"', "{", "}", " ", "é", "1e9", "\\", "#"]


@draws(150)
@given(st.sampled_from(["slurm.conf", "scontrol-node.txt", "sinfo.json", "kubectl.json", "kueue.json"]), st.data())
def test_a_mutated_description_is_read_or_refused_in_words(name: str, data: st.DataObject) -> None:
    text = (SAMPLES / name).read_text()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text = text[:start] + data.draw(st.sampled_from(ODD)) + text[end:]
    try:
        system = described(SAMPLES / name, text, name)
        if system is not None:
            Cluster.from_dict(converted(system).content, name)
    except InputError:
        return
