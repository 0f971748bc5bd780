"""Partitions of Slurm: lines ``PartitionName=`` of ``slurm.conf``, or as ``scontrol show partition`` prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from unrack.cluster.formats.accounting import MODES, over_time
from unrack.cluster.formats.described import Described
from unrack.cluster.formats.site import (
    ALL,
    OWN_QOS,
    Keys,
    Lost,
    SaidSite,
    lose,
    lower,
    max_time,
    once,
    parsed,
    says_nothing,
    whole,
)
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.values import ENDLESS, UNKNOWN, records

SHOWN = re.compile(r"\s*PartitionName=\S+\s[^#]*?\b(TotalNodes|AllocNodes)=", re.DOTALL)
"""What the first record looks like."""
_TAKEN = (
    "partitionname nodes default prioritytier priorityjobfactor priority maxtime minnodes maxnodes allowaccounts "
    "denyaccounts allowqos qos state totalcpus totalnodes tres nodesets"
)
_WORDS = (
    "OverSubscribe GraceTime PreemptMode PreemptType DefMemPerCPU DefMemPerNode DefMemPerGPU DefCpuPerGPU MaxMemPerCPU "
    "MaxMemPerNode MaxCPUsPerNode MaxCPUsPerSocket TRESBillingWeights DefaultTime AllowGroups DenyQos AllocNodes "
    "ExclusiveUser RootOnly ReqResv Alternate DisableRootJobs Hidden LLN JobDefaults OverTimeLimit SuspendTime "
    "SelectTypeParameters TmpDisk SuspendTimeout ResumeTimeout PowerDownOnIdle CpuBind"
)
_SPELLED = {name.lower(): name for name in _WORDS.split()}


def spelled(key: str) -> str:
    """A key in small letters as Slurm writes it."""
    return _SPELLED.get(key, key)


def partition_keys(fields: Mapping[str, str], at: str, lost: Lost) -> Keys:
    """The keys of a partition but its name and nodes; ``fields``: what it says, keys in small letters."""
    name, found = fields["partitionname"], Keys()

    def said(*keys: str) -> str:
        text = next((fields[key].strip() for key in keys if key in fields), "")
        return "" if text.lower() in UNKNOWN | ENDLESS | {"all"} else text

    if said("default").upper() == "YES":
        found["default"] = True
    for key, usual, names in (
        ("tier", 1, ("Priority", "PriorityTier")),  # the old one key counts in place of both
        ("priority", 1, ("Priority", "PriorityJobFactor")),
        ("min_nodes", 1, ("MinNodes",)),
        ("max_nodes", None, ("MaxNodes",)),
    ):
        text = said(*(one.lower() for one in names))
        if text and (number := whole(text, f"{at}, {names[-1]}")) != usual and (key, number) != ("min_nodes", 0):
            found[key] = number
    found |= max_time(said("maxtime"), f"{at}, MaxTime")
    denied = "" if said("allowaccounts") else said("denyaccounts")  # Slurm looks at one of them
    for key, text in (("accounts", said("allowaccounts")), ("denied_accounts", denied), ("qos", said("allowqos"))):
        found |= {key: lower(text.split(","))} if text else {}
    if own := said("qos"):
        found[OWN_QOS] = own.lower()
    if said("state").upper() not in ("", "UP"):
        found["open"] = False
    for key, value in fields.items():
        if key == "oversubscribe" and value.upper() == "EXCLUSIVE":
            found["whole_nodes"] = True
        elif key == "preemptmode" and value.lower() in MODES:
            found["preempt_mode"] = MODES[value.lower()]
        elif key == "overtimelimit" and value.strip().lower() != "unlimited":
            found |= over_time(value, f"{at}, OverTimeLimit")
        elif key == "overtimelimit" or (key not in _TAKEN.split() and not says_nothing(value)):
            lose(lost, f"{spelled(key)} of partitions is not taken over", name, value)
    return found


def members_of(text: str, at: str, sets: Mapping[str, Sequence[str]], every: Sequence[str]) -> list[str]:
    """The nodes that a partition names: hosts, sets of nodes, or all of them."""
    if text.strip().lower() in UNKNOWN:
        return []
    return [
        node
        for one in parsed(text.strip(" ,"), f"{at}, Nodes", expand)
        for node in (every if one.upper() == "ALL" else sets.get(one, (one,)))
    ]


def shown_partitions(text: str, where: str, name: str) -> Described:
    """Read what ``scontrol show partition`` printed, in blocks or one on a line.

    A ClusterError if a record has a value that cannot be.
    """
    lost, partitions, members = Lost(), dict[str, Keys](), dict[str, list[str]]()
    for record in records(text, "PartitionName"):
        at, fields = f"{where}, line {record.line}", {key.lower(): value for key, value in record.fields.items()}
        partition = once(fields["partitionname"], partitions, at)
        partitions[partition] = partition_keys(fields, at, lost)
        members[partition] = members_of(fields.get("nodes", ""), at, {}, [ALL])
    return Described(where, name, (), site=SaidSite(partitions, members=members, lost_of_partitions=lost))
