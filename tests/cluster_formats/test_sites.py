"""Partitions, features, accounts and limits of Slurm as the table ``site`` of a cluster file."""

from __future__ import annotations

import pickle
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.cluster.formats.described import Converted, Described, converted, together
from unrack.cluster.formats.reading import described
from unrack.cluster.node_names import recount
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError
from unrack.resources.site.installed import Site
from unrack.units import time_us

CONF = """\
# a site of three partitions   (SLURM 23.02)
ClusterName="hill"
SlurmctldHost=head(10.0.0.1)
selecttype=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio   # lower tiers are stopped
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=safe,qos
nodename=n[1-4] CPUs=16 RealMemory=64000 Feature="ib,skylake" State=UNKNOWN
NodeName=gpu[01-02] cpus=32 RealMemory=256000 Gres=gpu:a100:4 \\
    Features=ib,amd
NodeName=old1 CPUs=8 State=DOWN
NodeSet=amds Feature=amd
NodeSet=few Nodes=n[1-2]
PartitionName=DEFAULT MaxTime=2-00:00:00 State=UP TRESBillingWeights="CPU=1.0,Mem=0.25G"
PartitionName=batch Nodes=n[1-4],gpu[01-02] Default=YES AllowAccounts=Physics,chem QOS=capped
partitionname=gpu nodes=amds PriorityTier=10 PriorityJobFactor=5 MaxNodes=2 AllowQos=high,normal \\
    OverSubscribe=EXCLUSIVE GraceTime=60 \\
    MaxTime=90
PartitionName=debug Nodes=few MaxTime=30:00 DenyAccounts=guests MinNodes=2 DefMemPerCPU=2000
PartitionName=all Nodes=ALL MaxTime=UNLIMITED State=INACTIVE Shared=FORCE:2
PartitionName=none Nodes="" MaxTime=1
PartitionName=gone Nodes=old1
"""
PARTITIONS = """\
PartitionName=batch
   AllowGroups=ALL AllowAccounts=physics,chem AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=capped
   DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=2-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
   Nodes=n[1-4],gpu[01-02]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=REQUEUE
   State=UP TotalCPUs=128 TotalNodes=6 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
   TRES=cpu=128,mem=768000M,node=6,billing=128

PartitionName=gpu
   AllowGroups=ALL DenyAccounts=guests AllowQos=high,normal
   AllocNodes=ALL Default=NO QoS=N/A
   MaxNodes=2 MaxTime=01:30:00 MinNodes=1
   Nodes=gpu[01-02]
   PriorityJobFactor=5 PriorityTier=10 OverSubscribe=EXCLUSIVE
   State=DRAIN TotalCPUs=64 TotalNodes=2
"""
DUMP = """\
# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxNodesPerJob=50
Cluster - 'hill':Fairshare=1:QOS='normal':GrpTRES=cpu=160
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'Physics':Description='all: of it':Organization="phys":\
Fairshare=10:GrpTRES=cpu=100,gres/gpu=8,mem=1T,gres/gpu:a100=4:MaxJobs=5:MaxWall=2-00:00:00
Account - 'chem':Description='chem':Fairshare=parent:GrpJobs=7:MaxTRESPerJob=node=2:GrpTRESMins=cpu=1000
Parent - 'Physics'
Account - 'theory':Fairshare=3:MaxJobs=9
User - 'bob':DefaultAccount='physics':Fairshare=2147483647
Parent - 'theory'
User - 'alice':DefaultAccount='theory':Fairshare=4:MaxJobs=2:GrpTRES=license/matlab@flex=1
User - 'bob':Fairshare=1
"""


def table(columns: str, *rows: dict[str, str]) -> str:
    """As ``sacctmgr -P`` prints it."""
    header = columns.split("|")
    assert all(key in header for row in rows for key in row)
    return "\n".join([columns, *("|".join(row.get(key, "") for key in header) for row in rows), ""])


def association(account: str, user: str = "", **fields: str) -> dict[str, str]:
    return {"Cluster": "hill", "Account": account, "User": user, "Share": "1", "QOS": "normal"} | fields


ASSOC = table(
    "Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|GrpSubmit|GrpWall|GrpTRESMins|MaxJobs|MaxTRES|"
    "MaxTRESPerNode|MaxSubmit|MaxWall|MaxTRESMins|QOS|Def QOS|GrpTRESRunMins|ParentName",
    association("root", Share="", GrpTRES="cpu=160"),
    association("root", "root"),
    association(
        "physics", Share="10", GrpTRES="cpu=100,gres/gpu=8,mem=1T", MaxJobs="5", MaxWall="2-00:00:00", ParentName="root"
    ),
    association("theory", Share="3", MaxJobs="9", MaxWall="2-00:00:00", ParentName="physics"),
    association("theory", "alice", Share="4", MaxJobs="2", MaxWall="2-00:00:00", QOS="high,normal"),
    association("theory", "bob", Partition="gpu", MaxJobs="9", MaxWall="2-00:00:00"),
    association("physics", "bob", Share="parent", MaxJobs="5", MaxWall="2-00:00:00"),
)
USUAL = {"Priority": "0", "GraceTime": "00:00:00", "PreemptMode": "cluster", "UsageFactor": "1.000000"}
QOS = table(
    "Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|GrpTRESMins|"
    "GrpTRESRunMins|GrpJobs|GrpSubmit|GrpWall|MaxTRES|MaxTRESPerNode|MaxTRESMins|MaxWall|MaxTRESPU|MaxJobsPU|"
    "MaxSubmitPU|MaxTRESPA|MaxJobsPA|MaxSubmitPA|MinTRES|",
    {**USUAL, "Name": "normal"},
    {
        **USUAL, "Name": "high", "Priority": "1000", "GraceTime": "00:05:00", "Preempt": "normal",
        "Flags": "DenyOnLimit", "GrpTRES": "cpu=64,node=4", "GrpJobs": "3", "MaxTRES": "node=2",
        "MaxWall": "12:00:00", "MaxTRESPU": "cpu=32,gres/gpu=4", "MaxJobsPU": "2", "MaxSubmitPU": "10",
        "MaxTRESPA": "mem=512G", "MaxJobsPA": "6",
    },
    {**USUAL, "Name": "capped", "Flags": "DenyOnLimit", "MaxTRESPU": "cpu=48"},
)  # fmt: skip


def read(*texts: str, **options: object) -> Converted:
    systems: list[Described] = []
    for place, text in enumerate(texts):
        system = described(Path(f"file{place}.conf"), text, f"file{place}")
        assert system is not None, text
        systems.append(system)
    return converted(together(systems), **options)  # type: ignore[arg-type]


def site(*texts: str, **options: object) -> dict[str, Any]:
    found: dict[str, Any] = read(*texts, **options).content["site"]
    return found


def by_name(tables: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {table["name"]: {key: value for key, value in table.items() if key != "name"} for table in tables}


def test_partitions_of_a_slurm_conf_keep_what_they_are() -> None:
    assert by_name(site(CONF)["partitions"]) == {
        "batch": {"default": True, "max_time": "2 d", "accounts": ["physics", "chem"]},
        "gpu": {
            "nodes": ["gpu[01-02]"], "tier": 10, "priority": 5, "max_nodes": 2, "max_time": "1 h 30 min",
            "qos": ["high", "normal"], "whole_nodes": True,
        },
        "debug": {"nodes": ["n[1-2]"], "max_time": "30 min", "denied_accounts": ["guests"], "min_nodes": 2},
        "all": {"open": False},
    }  # fmt: skip


def test_features_are_lists_of_nodes_and_classes_stay_as_they_were() -> None:
    made = read(CONF).content
    assert made["site"]["features"] == {"ib": ["n[1-4],gpu[01-02]"], "skylake": ["n[1-4]"], "amd": ["gpu[01-02]"]}
    assert [kind["names"] for kind in made["nodes"]] == ["n[1-4]", "gpu[01-02]"]


def test_accounts_and_qualities_that_are_only_named_are_there() -> None:
    found = site(CONF)
    assert [one["name"] for one in found["accounts"]] == ["physics", "chem", "guests"]
    assert [one["name"] for one in found["qos"]] == ["high", "normal"]


@pytest.mark.parametrize(
    ("text", "time"),
    [("90", "90 min"), ("90:30", "91 min"), ("1:30:00", "90 min"), ("1-12", "36 h"), ("1-00:30", "24 h 30 min"),
     ("1-02:03:04", "26 h 4 min"), ("UNLIMITED", None), ("infinite", None), ("NONE", None)],
)  # fmt: skip
def test_every_way_to_write_a_time_is_read(text: str, time: str | None) -> None:
    (found,) = site(f"NodeName=a CPUs=1\nPartitionName=p Nodes=a MaxTime={text}\n")["partitions"]
    assert (time_us(found["max_time"]) if "max_time" in found else None) == (None if time is None else time_us(time))


@pytest.mark.parametrize(
    ("line", "partition", "usual", "own"),
    [("10", "", "10 min", None), ("0", "", None, None), ("UNLIMITED", "", None, None), ("10", "0", "10 min", "0 min"),
     ("", "5", None, "5 min"), ("3", "NONE", "3 min", None)],
)  # fmt: skip
def test_the_grace_after_a_limit_is_taken_over(line: str, partition: str, usual: str | None, own: str | None) -> None:
    own_line = f" OverTimeLimit={partition}" if partition else ""
    text = f"OverTimeLimit={line}\nNodeName=a CPUs=1\nPartitionName=p Nodes=a MaxTime=9{own_line}\n"
    found = site(text if line else text.partition("\n")[2])
    assert (found.get("over_time"), found["partitions"][0].get("over_time")) == (usual, own)
    assert not [note for note in read(text).notes if "OverTimeLimit" in note]


def test_a_grace_that_is_no_number_is_refused_and_one_without_end_is_not_taken_over() -> None:
    with pytest.raises(ClusterError, match="OverTimeLimit: got 'soon'"):
        read("OverTimeLimit=soon\nNodeName=a CPUs=1\nPartitionName=p Nodes=a\n")
    notes = read("OverTimeLimit=5\nNodeName=a CPUs=1\nPartitionName=p Nodes=a OverTimeLimit=UNLIMITED\n").notes
    assert "OverTimeLimit of partitions is not taken over: p (UNLIMITED)." in notes


def test_what_is_not_taken_over_is_said_once_a_kind() -> None:
    notes = read(CONF, PARTITIONS, DUMP, QOS).notes
    for words in (
        "GraceTime of partitions is not taken over: gpu (60).",
        "DefMemPerCPU of partitions is not taken over: debug (2000).",
        "OverSubscribe of partitions is not taken over: all (FORCE:2).",
        "Partitions without nodes that are kept are left out: none, gone.",
        "DefaultTime of partitions is not taken over: batch (01:00:00).",
        "Flags of QOS is not taken over: high (DenyOnLimit), capped (DenyOnLimit).",
        "GraceTime of QOS is not taken over: high (00:05:00).",
        "GrpTRESMins of accounts and users is not taken over: account chem (cpu=1000).",
        "Limits of gres/gpu:a100 are not taken over: account physics (GrpTRES gres/gpu:a100=4).",
    ):
        assert list(notes).count(words) == 1, (words, notes)
    assert len([note for note in notes if note.startswith("TRESBillingWeights of partitions")]) == 1
    assert not [note for note in notes if "are one cluster" in note]


def test_partitions_that_scontrol_shows_count_in_place_of_those_of_a_file_before() -> None:
    found = by_name(site(CONF, PARTITIONS)["partitions"])
    batch = {"default": True, "max_time": "2 d", "accounts": ["physics", "chem"], "preempt_mode": "requeue"}
    assert found["batch"] == batch
    assert found["gpu"]["denied_accounts"] == ["guests"]
    assert found["gpu"]["open"] is False
    one_line = "\n".join(" ".join(block.split()) for block in PARTITIONS.split("\n\n"))
    assert site(CONF, one_line) == site(CONF, PARTITIONS)


def test_nodes_that_scontrol_shows_have_partitions_and_features() -> None:
    nodes = "".join(
        f"NodeName={name} CPUAlloc=0 CPUTot=8 RealMemory=1000 {features} State=IDLE Partitions={partitions}\n"
        for name, features, partitions in (
            ("n1", "AvailableFeatures=ib,knl ActiveFeatures=ib", "a,b"),
            ("n2", "Features=(null)", "a"),
            ("n3", "AvailableFeatures=ib", ""),
        )
    )
    assert site(nodes) == {
        "partitions": [{"name": "a", "nodes": ["n[1-2]"]}, {"name": "b", "nodes": ["n1"]}],
        "features": {"ib": ["n[1,3]"]},
    }
    assert "Partitions of which only the nodes are known are open to all: a, b." in read(nodes).notes
    shown = "PartitionName=b AllocNodes=ALL Nodes=n[2-3] MaxTime=10 State=UP\n"
    assert by_name(site(shown, nodes)["partitions"])["b"] == {"nodes": ["n[2-3]"], "max_time": "10 min"}


def test_a_dump_is_its_accounts_users_shares_and_limits() -> None:
    found = site(CONF, DUMP)
    accounts = by_name(found["accounts"])
    assert found["limits"] == [{"per": "all", "amounts": {"cores": 160}}]
    assert accounts["physics"] == {
        "shares": 10,
        "max_time": "2 d",
        "limits": [
            {"per": "all", "amounts": {"cores": 100, "gpus.count": 8, "memory": 2**20}},
            {"per": "user", "amounts": {"jobs": 5}},
        ],
        "users": [{"name": "bob", "shares": "parent"}],
    }
    assert accounts["chem"]["limits"] == [
        {"per": "all", "amounts": {"jobs": 7}},
        {"per": "job", "amounts": {"nodes": 2}},
    ]
    assert accounts["theory"]["parent"] == "physics"
    assert accounts["theory"]["users"] == [
        {
            "name": "alice",
            "shares": 4,
            "limits": [{"per": "user", "amounts": {"jobs": 2}}, {"per": "all", "amounts": {"counted.matlab_flex": 1}}],
        },
        "bob",
    ]


def test_a_table_of_associations_says_the_same_and_what_users_inherit_is_the_accounts() -> None:
    listed, dumped = site(CONF, ASSOC), site(CONF, DUMP)
    accounts = by_name(listed["accounts"])
    assert listed["limits"] == dumped["limits"]
    assert accounts["physics"] == by_name(dumped["accounts"])["physics"]
    assert accounts["theory"]["users"] == [
        {"name": "alice", "shares": 4, "limits": [{"per": "user", "amounts": {"jobs": 2}}]},
        "bob",
    ]
    assert "Associations of one partition are not taken over: bob in theory (gpu)." in read(CONF, ASSOC).notes
    assert "QOS of accounts and users is not taken over: alice in theory (high,normal)." in read(CONF, ASSOC).notes


def test_a_tree_of_blanks_says_parents_and_without_any_that_is_said() -> None:
    tree = "Account|User|Share|GrpCPUs|MaxJobs|\nroot||1|||\n a||2|40||\n  b||3|||\n  b|x|1|||\n c||4||6|\n"
    accounts = by_name(site(CONF, tree)["accounts"])
    assert [accounts[name].get("parent") for name in "abc"] == [None, "a", None]
    assert accounts["a"]["limits"] == [{"per": "all", "amounts": {"cores": 40}}]
    assert accounts["c"]["limits"] == [{"per": "user", "amounts": {"jobs": 6}}]
    assert [note for note in read(CONF, tree.replace(" ", "")).notes if "no parents are said" in note]
    flat = "Account|User|Share|\nroot|||\n a||2|\n a|x|1|\n"  # no account below another, and the tree says so
    assert not [note for note in read(CONF, flat).notes if "no parents are said" in note]


def test_the_policy_that_is_like_the_scheduler_is_told() -> None:
    told, rest = "Its scheduler as a policy: slurm(order=", "reserve=slurm, place=tightest-run)."
    assert f"{told}fcfs, interval=30 s, depth=500, queue=500, {rest}" in read(CONF).notes
    own = "SchedulerParameters=bf_interval=60,bf_max_job_test=40 # ours\nPriorityWeightAge=10\n"
    assert f"{told}multifactor, interval=60 s, depth=40, queue=100, {rest}" in read(CONF + own).notes
    alone = own.replace("bf_interval", "sched_interval=-1,bf_interval")
    wanted = f"{told}multifactor, interval=60 s, main=interval, depth=40, queue=100, {rest}"
    assert wanted in read(CONF + alone).notes
    builtin = f"{CONF}SchedulerType=sched/builtin\nSelectType=select/linear\n"
    assert "Its scheduler as a policy: list(order=fcfs, nodes=whole)." in read(builtin).notes


def test_qualities_of_service_have_priorities_and_limits_and_bound_partitions() -> None:
    found = site(CONF, QOS)
    assert by_name(found["qos"])["high"] == {
        "priority": 1000,
        "max_time": "12 h",
        "limits": [
            {"per": "all", "amounts": {"cores": 64, "nodes": 4, "jobs": 3}},
            {"per": "job", "amounts": {"nodes": 2}},
            {"per": "user", "amounts": {"cores": 32, "gpus.count": 4, "jobs": 2}},
            {"per": "account", "amounts": {"memory": 524288, "jobs": 6}},
        ],
    }
    assert by_name(found["partitions"])["batch"]["limits"] == [{"per": "user", "amounts": {"cores": 48}}]
    lost = "Limits of partitions by a QOS of which nothing is said are not taken over: batch (capped)."
    assert lost in read(CONF).notes
    assert lost not in read(CONF, QOS).notes


def test_one_partition_is_kept_without_the_others() -> None:
    made = read(CONF, DUMP, partition="gpu")
    assert [kind["names"] for kind in made.content["nodes"]] == ["gpu[01-02]"]
    assert [one["name"] for one in made.content["site"]["partitions"]] == ["gpu"]
    assert made.content["site"]["features"] == {"ib": ["gpu[01-02]"], "amd": ["gpu[01-02]"]}
    assert not [note for note in made.notes if "debug" in note or "batch" in note]


def masks(cluster: Cluster) -> dict[str, list[int]]:
    installed = cluster.places.installed["site"]
    assert isinstance(installed, Site)
    sets = {**installed.nodes_of, **{f"feature {name}": mask for name, mask in installed.features.items()}}
    return {name: np.flatnonzero(mask).tolist() for name, mask in sets.items()}


def test_files_of_one_site_are_converted_together_and_load_again_as_the_same(tmp_path: Path) -> None:
    names = {"slurm.conf": CONF, "parts.txt": PARTITIONS, "assoc.txt": ASSOC, "qos.txt": QOS}
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    out = tmp_path / "site.toml"
    done = CliRunner().invoke(app, ["cluster", "convert", *(str(tmp_path / name) for name in names), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "6 nodes, 128 cores, 8 GPUs, 4 partitions, 5 accounts" in done.output
    again = Cluster.load(out)
    assert tomllib.loads(out.read_text())["site"] == site(CONF, PARTITIONS, ASSOC, QOS)
    assert again.digest() == Cluster.from_dict(read(CONF, PARTITIONS, ASSOC, QOS).content).digest()
    assert masks(again) == {
        "batch": [0, 1, 2, 3, 4, 5], "gpu": [4, 5], "debug": [0, 1], "all": [0, 1, 2, 3, 4, 5],
        "feature ib": [0, 1, 2, 3, 4, 5], "feature skylake": [0, 1, 2, 3], "feature amd": [4, 5],
    }  # fmt: skip
    assert masks(Cluster.load(tmp_path / "slurm.conf")) == masks(again)


def test_limits_of_a_real_site_hold_in_a_run(tmp_path: Path) -> None:
    header = "id,submit,run,requested_time,tasks,cores,memory,gpus.count,user,account,qos,partition"
    rows = [f"{job},0,100,100,1,1,1,2,{user},physics,high,gpu" for job, user in enumerate(("eve", "al", "eve", "eve"))]
    (tmp_path / "jobs.csv").write_text("\n".join([header, *rows, ""]))
    jobs = unrack.read_trace(tmp_path / "jobs.csv")
    qos = QOS.replace("high|1000|", "high|0|").replace("|2|10|", "||10|")  # 4 GPUs of each user, any number of jobs
    result = unrack.simulate(Cluster.from_dict(read(CONF, qos).content), jobs, "fcfs")
    # jobs have nodes of 32 cores to themselves, and of these each user has 32 at once
    assert sorted(result.jobs["start_s"].to_list()) == [0, 0, 100, 200]


def test_a_cluster_with_a_site_can_be_sent_to_a_process_and_written_again() -> None:
    cluster = pickle.loads(pickle.dumps(Cluster.from_dict(read(CONF, PARTITIONS, ASSOC, QOS).content)))
    written = cluster.places.installed["site"].written()
    assert {one["name"]: one.get("max_time") for one in written["partitions"]}["gpu"] == 5400.0
    assert (
        Site(written, cluster.places.installed["site"].cluster_nodes, "x").file.partitions[0].max_time
        == 172_800_000_000
    )


@pytest.mark.parametrize(
    ("count", "batch", "skylake"), [(2, ["n[1-2],gpu1"], ["n[1-2]"]), (6, ["n[1-6],gpu1"], ["n[1-6]"])]
)
def test_another_number_of_nodes_changes_partitions_and_features_with_them(
    count: int, batch: list[str], skylake: list[str]
) -> None:
    text = (
        "NodeName=n[1-4] CPUs=4 Features=skylake\nNodeName=gpu[1-2] CPUs=8\n"
        "PartitionName=batch Nodes=n[1-4],gpu1\nPartitionName=gpu Nodes=gpu[1-2]\n"
    )
    content = read(text).content
    content["nodes"][0]["count"] = count
    recount(content, 0, 4)
    assert content["site"] == {
        "partitions": [{"name": "batch", "nodes": batch}, {"name": "gpu", "nodes": ["gpu[1-2]"]}],
        "features": {"skylake": skylake},
    }
    assert masks(Cluster.from_dict(content))["gpu"] == [count, count + 1]


def test_an_included_file_brings_partitions(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("NodeName=a[1-3] CPUs=2\nInclude parts.conf\n")
    (tmp_path / "parts.conf").write_text("PartitionName=x Nodes=a[2-3]\n", encoding="utf-8-sig")
    assert masks(Cluster.load(tmp_path / "slurm.conf")) == {"x": [1, 2]}


def test_of_several_default_partitions_the_last_is_the_default_as_in_slurm() -> None:
    text = "NodeName=a CPUs=1\nPartitionName=x Nodes=a Default=YES\nPartitionName=y Nodes=a,zz default=yes\n"
    assert [one.get("default") for one in site(text)["partitions"]] == [None, True]
    assert "Nodes of partitions that no file describes: y (zz)." in read(text).notes


NODE = "NodeName=a CPUs=1\n"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([f"{NODE}PartitionName=p Nodes=a MaxTime=soon"], "file0, line 2, MaxTime: got 'soon', wanted a time such as"),
        ([f"{NODE}PartitionName=p Nodes=a MaxNodes=-1"], "file0, line 2, MaxNodes: got '-1', wanted a whole number of"),
        ([f"{NODE}PartitionName=p Nodes=a PriorityTier=x"], "line 2, PriorityTier: got 'x'"),
        ([f"{NODE}PartitionName=p Nodes=a[1-"], "line 2, Nodes: got 'a[1-'"),
        ([PARTITIONS], "file0: got no nodes, wanted a file that has them beside it"),
        ([NODE, PARTITIONS.replace("01:30:00", "long")], "file1, line 14, MaxTime: got 'long'"),
        ([NODE, DUMP.replace("Fairshare=10", "Fairshare=-10")], "file1, line 6, Fairshare: got '-10', wanted a whole"),
        ([NODE, DUMP.replace("MaxJobs=5", "MaxJobs=-5")], "file1, line 6, MaxJobs: got '-5'"),
        ([NODE, DUMP.replace("cpu=100", "cpu=-1")], "file1, line 6, GrpTRES: got 'cpu=-1', wanted amounts of 0 or"),
        ([NODE, DUMP.replace("cpu=100", "cpu=many")], "file1, line 6, GrpTRES: got 'cpu=many'"),
        ([NODE, DUMP.replace("Parent - 'theory'", "Parent - 'theroy'")], "line 11, Parent: got 'theroy', wanted an"),
        ([NODE, DUMP.replace("User - 'bob':F", "Usr - 'bob':F")], "file1, line 13: got"),
        ([NODE, DUMP + DUMP.replace("hill", "dale")], "clusters hill and dale, wanted one, as sacctmgr dump"),
        ([NODE, ASSOC.replace("|root\n", "|rot\n", 1)], "file1, line 4, parent of physics: got 'rot', wanted"),
        ([NODE, ASSOC.replace("|root\n", "|theory\n", 1)], "physics in theory in physics, wanted accounts that"),
        ([NODE, ASSOC.replace("hill|theory|||", "hill|theory||", 1)], "file1, line 5: got 20 fields, wanted 21, as in"),
        ([NODE, ASSOC.replace("hill|theory|alice", "hill|teory|alice")], "file1, line 6, Account: got 'teory', wanted"),
        ([NODE, ASSOC.replace("hill|theory|bob", "dale|theory|bob")], "got clusters dale, hill, wanted one: sacctmgr"),
        ([NODE, QOS.replace("|1000|", "|-3|")], "file1, line 3, Priority: got '-3', wanted a whole number"),
        ([NODE, QOS.replace("12:00:00", "noon")], "file1, line 3, MaxWall: got 'noon', wanted a time such as"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_place(texts: list[str], words: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read(*texts)
    assert words in str(caught.value)


ODD = ["=", "", "\n", "0", "-1", "9" * 30, "[", "]", ",", "null", '"', "'", ":", "|", "é", "1e9", "\\", "#", "root"]


@draws(200)
@given(st.sampled_from([CONF, PARTITIONS, DUMP, ASSOC, QOS]), st.data())
def test_a_mutated_file_is_read_or_refused_in_words(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text = text[:start] + data.draw(st.sampled_from(ODD)) + text[end:]
    try:
        system = described(Path("x"), text, "x")
        conf = described(Path("y"), CONF, "y")
        if system is not None and conf is not None:
            Cluster.from_dict(converted(together([conf, system])).content, "x")
    except InputError:
        return


FIRST = """\
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityWeightAge=1000
PriorityDecayHalfLife=14-0
PriorityMaxAge=7-0
PriorityFlags=NO_FAIR_TREE,ACCRUE_ALWAYS
PriorityUsageResetPeriod=MONTHLY
PreemptType=preempt/qos
PreemptMode=GANG,CANCEL
PreemptExemptTime=00:10:00
NodeName=n[1-2] CPUs=4
PartitionName=a Nodes=n[1-2] Default=YES
"""


def test_who_is_first_and_who_is_stopped_for_others_comes_along() -> None:
    made = read(FIRST, QOS)
    found = made.content["site"]
    assert found["priority"] == {
        "age": 1000, "fair_share": 10000, "half_life": 14 * 86400, "max_age": 7 * 86400, "fair_share_by": "classic",
    }  # fmt: skip
    assert found["preempt"] == {"by": "qos", "mode": "cancel", "exempt_time": 600}
    assert by_name(found["qos"])["high"]["preempts"] == ["normal"]
    assert "Flags of priorities are not taken over: ACCRUE_ALWAYS." in made.notes
    assert "Of priorities is not taken over: PriorityUsageResetPeriod=MONTHLY." in made.notes
    Cluster.from_dict(made.content)


@pytest.mark.parametrize("kind", ["preempt/partition_prio", "preempt/qos"])
def test_jobs_that_slurm_suspends_are_suspended_here(kind: str) -> None:
    made = read(FIRST.replace("preempt/qos", kind).replace("GANG,CANCEL", "SUSPEND,GANG"), QOS)
    assert made.content["site"]["preempt"]["mode"] == "suspend"
    assert not any("PreemptMode" in note for note in made.notes)
    Cluster.from_dict(made.content)


@pytest.mark.parametrize("kind", ["preempt/partition_prio", "preempt/qos"])
def test_jobs_that_take_turns_are_not_preempted_here_and_that_is_said(kind: str) -> None:
    made = read(FIRST.replace("preempt/qos", kind).replace("GANG,CANCEL", "GANG"), QOS)
    assert "preempt" not in made.content["site"]
    assert not any("preempts" in one for one in made.content["site"]["qos"])
    assert "Jobs are not preempted: PreemptMode=gang." in made.notes


def test_a_weight_that_is_no_number_is_refused_with_its_place() -> None:
    with pytest.raises(ClusterError, match=r"PriorityWeightAge: got 'much', wanted a whole number"):
        read(FIRST.replace("PriorityWeightAge=1000", "PriorityWeightAge=much"))


def test_a_node_that_is_there_twice_is_refused_and_of_a_partition_the_first_counts() -> None:
    nodes = "NodeName=n[1-4] CPUs=4\n"
    with pytest.raises(ClusterError, match=r"line 2, NodeName: got n3 once more"):
        read(nodes + "NodeName=n3 CPUs=8\nPartitionName=a Nodes=ALL\n")
    found = read(nodes + "PartitionName=a Nodes=n[1-2]\nPartitionName=a Nodes=n4\n")
    assert "twice the first counts, as in Slurm: a" in " ".join(found.notes)
    assert found.content["site"]["partitions"][0]["nodes"] == ["n[1-2]"]


def test_limits_that_slurm_does_not_enforce_are_left_out_and_that_is_said() -> None:
    free = CONF.replace("safe,qos", "associations")
    made = read(free, ASSOC, QOS)
    found = made.content["site"]
    assert sum("as none is enforced: AccountingStorageEnforce" in note for note in made.notes) == 1
    assert not {"limits", "nearest_limits"} & found.keys()
    assert by_name(found["accounts"])["theory"] == {"parent": "physics", "shares": 3, "users": [
        {"name": "alice", "shares": 4}, "bob"]}  # fmt: skip
    assert not any("limits" in one for one in (*found["partitions"], *found["qos"]))
    assert by_name(found["partitions"])["debug"]["max_time"] == "30 min"  # partitions have their limits anyhow
    assert site(CONF, ASSOC, QOS)["nearest_limits"]
    assert site(CONF.replace("AccountingStorageEnforce=safe,qos\n", ""), ASSOC, QOS)["nearest_limits"]  # not said


def test_without_the_multifactor_plugin_weights_are_none_and_the_dampening_counts() -> None:
    made = read(FIRST.replace("priority/multifactor", "priority/basic"))
    assert "priority" not in made.content["site"]
    assert "order=fcfs" in " ".join(made.notes)
    assert site("FairShareDampeningFactor=5\n" + FIRST)["priority"]["dampening"] == 5


def test_what_the_root_allows_to_each_is_what_its_accounts_allow_as_sacctmgr_shows_it() -> None:
    lines = (
        "Cluster - 'hill':GrpTRES=cpu=9:MaxJobs=7:MaxWallDurationPerJob=600:Priority=3", "Parent - 'root'",
        "User - 'root':Fairshare=1", "Account - 'a':MaxJobs=2", "Account - 'b':Priority=8", "Parent - 'a'",
        "Account - 'c':Fairshare=1", "User - 'x':Priority=4",
    )  # fmt: skip
    shown = table(
        "Cluster|Account|User|Share|Priority|GrpTRES|MaxJobs|MaxWall|QOS|ParentName",
        *(
            association(account, user, Priority=first, MaxJobs=jobs, MaxWall="10:00:00", GrpTRES=grp, ParentName=parent)
            for account, user, first, jobs, grp, parent in (
                ("root", "", "3", "7", "cpu=9", ""),
                ("root", "root", "3", "7", "", ""),
                ("a", "", "3", "2", "", "root"),
                ("b", "", "8", "7", "", "root"),
                ("a", "x", "4", "2", "", ""),
                ("c", "", "3", "2", "", "a"),
            )
        ),
    )
    found = site(CONF, "\n".join(lines))
    assert found["limits"] == [{"per": "all", "amounts": {"cores": 9}}]
    accounts = by_name(found["accounts"])
    assert accounts["a"] == {
        "max_time": "10 h", "priority": 3, "limits": [{"per": "user", "amounts": {"jobs": 2}}],
        "users": [{"name": "x", "priority": 4}],
    }  # fmt: skip
    assert accounts["b"]["priority"] == 8
    assert accounts["b"]["limits"] == accounts["root"]["limits"] == [{"per": "user", "amounts": {"jobs": 7}}]
    again = site(CONF, shown)
    assert by_name(again["accounts"]) == accounts
    assert again["limits"] == found["limits"]


def test_old_names_of_keys_count_as_in_slurm() -> None:
    lines = (
        "NodeName=DEFAULT Feature=old Procs=4", "NodeName=a Features=new,ib", "NodeName=b CPUs=8",
        "PartitionName=DEFAULT PriorityTier=5 PriorityJobFactor=6", "PartitionName=p Nodes=a Priority=7",
        "PartitionName=q Nodes=a MaxTime=-1", "PartitionName=r Nodes=a MaxTime=1:30",
    )  # fmt: skip
    found = site("\n".join(lines))
    assert found["features"] == {"new": ["a"], "ib": ["a"], "old": ["b"]}
    partitions = by_name(found["partitions"])
    assert (partitions["p"]["tier"], partitions["p"]["priority"]) == (7, 7)  # it counts in place of both
    assert "max_time" not in partitions["q"]
    assert partitions["r"]["max_time"] == "2 min"  # times are whole minutes in Slurm, rounded up


def test_what_else_says_where_and_when_jobs_start_is_told() -> None:
    told = (
        "SchedulerParameters=bf_interval=60,bf_window=4320,assoc_limit_stop", "TopologyPlugin=topology/tree",
        "SelectTypeParameters=CR_Core_Memory,CR_LLN", "SuspendProgram=/bin/off", "SuspendTime=600",
        "PreemptParameters=reorder_count=3", "JobRequeue=0", "NodeName=far CPUs=4 Weight=9",
    )  # fmt: skip
    notes = read("\n".join(told) + "\n" + FIRST).notes
    for words in (
        "Of SchedulerParameters is not taken over: bf_window=4320, assoc_limit_stop.",
        "Switches (TopologyPlugin=topology/tree) are not taken over.",
        "Of SelectTypeParameters is not taken over: CR_LLN.",
        "Idle nodes are not switched off (SuspendTime=600).",
        "Of preemption is not taken over: PreemptParameters=reorder_count=3, JobRequeue=0.",
        "Weights of nodes are not taken over: Slurm uses nodes of a low weight first.",
    ):
        assert list(notes).count(words) == 1, (words, notes)
    plain = read("TopologyPlugin=topology/default\nNodeName=DEFAULT Weight=9\n" + FIRST).notes
    assert not any("topology" in note or "Weights" in note for note in plain)
    first = "Which jobs are preempted first is not taken over: of the lowest those of the fewest nodes."
    assert list(plain).count(first) == 1
    for words in ("PreemptParameters=youngest_first", "SchedulerParameters=preempt_youngest_first"):
        assert not any("preempt" in note for note in read(f"{words}\n{FIRST}").notes)


@pytest.mark.parametrize(
    ("keys", "cores"),
    [
        ("CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=2", 6),  # the CPUs are the cores
        ("Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1", 14),
        ("Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CpuSpecList=0,3", 12),  # whole cores
        ("CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CpuSpecList=0,3", 6),
        ("Boards=2 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=2 CpuSpecList=1,2,15", 10),
        ("CPUs=10 Sockets=1 CoresPerSocket=6 ThreadsPerCore=2 CoreSpecCount=1", 10),  # that is no number of CPUs: 12
        ("CPUs=13 CoresPerSocket=4", 4),
        ("CPUs=8 CoresPerSocket=2 ThreadsPerCore=2 CoreSpecCount=1", 6),
        ("CPUs=4 CoreSpecCount=4", 3),  # all of them it may not keep: 1
        ("CPUs=9 CoreSpecCount=2 CpuSpecList=0-3", 5),
        ("ThreadsPerCore=4", 4),
    ],
)
def test_cores_of_a_slurm_conf_are_those_that_its_slurm_shows(keys: str, cores: int) -> None:
    """CPUEfctv of scontrol show node, by slurmctld 22.05 with this configuration."""
    (node,) = read(f"NodeName=a {keys} RealMemory=64000 MemSpecLimit=64000\n").content["nodes"]
    assert (node["cores"], node["memory"]) == (cores, 64000)


def test_weights_of_tres_are_of_what_the_cluster_has() -> None:
    text = "NodeName=a CPUs=1\nPartitionName=p Nodes=a\nPriorityWeightTRES=CPU=1000,Mem=0,Node=5,GRES/gpu=30\n"
    made = read(text)
    assert made.content["site"]["priority"] == {"tres": {"cores": 1000.0, "nodes": 5.0}}
    assert [note for note in made.notes if "TRES" in note] == [
        "Of priorities TRES weigh by what the cluster has, not the partition: CPU, Node.",
        "Of priorities is not taken over: PriorityWeightTRES=GRES/gpu=30.",
    ]
    with pytest.raises(ClusterError, match="PriorityWeightTRES: got 'much'"):
        read(text.replace("=1000", "=much"))


def test_a_gres_conf_is_no_slurm_conf_and_an_account_is_in_one_place() -> None:
    with pytest.raises(ClusterError, match=r"line 1: got a line of gres\.conf"):
        read("NodeName=a Name=gpu Type=a100 File=/dev/nvidia[0-3]\n")
    dump = "Cluster - 'c':Fairshare=1\nParent - 'root'\nAccount - 'a'\nAccount - 'b'\nParent - 'b'\nAccount - 'A'\n"
    with pytest.raises(ClusterError, match="line 6: got account in a once more"):
        read(NODE, dump)
