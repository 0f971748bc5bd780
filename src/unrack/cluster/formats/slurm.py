"""Nodes of Slurm: ``slurm.conf``, with its partitions, or what ``scontrol show node`` printed, in any of its ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from unrack.cluster.formats.accounting import over_time, preempt_of, priority_of
from unrack.cluster.formats.described import Described, DescribedNode
from unrack.cluster.formats.partitions import members_of, partition_keys, spelled
from unrack.cluster.formats.site import ALL, Keys, Lost, SaidSite, host_name, lose, once, parsed, says_nothing, whole
from unrack.errors import ClusterError
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.job_ids import UNUSABLE, node_words
from unrack.slurm_text.scheduler import enforces_limits, scheduler_from
from unrack.slurm_text.tres import Tres, gres, licences, tres
from unrack.slurm_text.values import Record, records

_PAIR = re.compile(r"""([A-Za-z][\w.]*)\s*[-+*/]?=\s*("[^"]*"|[^\s"]*)""")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_DEEPEST = 10
_PLACING = frozenset({"CR_ONE_TASK_PER_CORE", "CR_PACK_NODES", "CR_LLN"})
"""Words of SelectTypeParameters that say which nodes jobs get."""
_MEMORY = ("defmempercpu", "defmempernode", "maxmempercpu", "maxmempernode")
CONFIGURATION = re.compile(
    r"^\s*(NodeName|PartitionName|ClusterName|SlurmctldHost|ControlMachine|NodeSet)\s*=|^\s*include\s+\S+\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""What a line of such a file looks like."""


_OF_OTHERS = frozenset({"nodename", "partitionname", "downnodes", "nodeset"})
"""Keys of lines that are not about the whole system."""
_OF_NODES = frozenset({
    "cpus", "boards", "socketsperboard", "sockets", "corespersocket", "threadspercore", "cpuspeclist", "corespeccount",
    "realmemory", "memspeclimit", "gres", "feature",
})  # fmt: skip
"""Keys of nodes that are taken over."""
_QUIET = frozenset({"nodename", "state", "reason", "weight", "nodehostname", "nodeaddr", "bcastaddr", "port"})
"""Other keys of nodes that need no word here."""
_ALSO = {"feature": "features", "cpus": "procs"}
"""Keys of nodes → what they may be called, too."""


class _Line(NamedTuple):
    where: str
    fields: dict[str, str]  # keys in small letters


def slurm_conf(path: Path, text: str, where: str) -> Described:
    """Read a configuration; files that it includes are looked for beside it.

    ``path``: the file; ``text``: what is in it; ``where``: what errors call it. A ClusterError if a line about nodes or
    partitions is not what it should be, or there are no nodes.
    """
    notes: list[str] = []
    lines = list(_lines(path, text, where, notes, 0))
    own = [line.fields for line in lines if not _OF_OTHERS & line.fields.keys()]
    settings = {key: value for fields in own for key, value in fields.items()}
    nodes: dict[str, DescribedNode] = {}
    defaults: dict[str, str] = {}
    for line in lines:
        if "nodename" in line.fields:
            names = line.fields["nodename"]
            if "name" in line.fields:
                raise ClusterError(line.where, "a line of gres.conf", "slurm.conf, which says Gres of nodes, too")
            if names.upper() == "DEFAULT":
                defaults |= line.fields
                continue
            made = _node({**defaults, **line.fields}, line.where)
            for name in parsed(names, f"{line.where}, NodeName", expand):
                nodes[once(name, nodes, f"{line.where}, NodeName")] = replace(made, name=name)
        elif "downnodes" in line.fields:
            for name in parsed(line.fields["downnodes"], f"{line.where}, DownNodes", expand):
                if name in nodes:
                    nodes[name] = replace(nodes[name], down=line.fields.get("state", "down").lower())
    if not nodes:
        also = f" ({'; '.join(notes)})" if notes else ""
        raise ClusterError(where, f"no line NodeName=…{also}", "one or more")
    notes += _facts(lines, settings)
    site = _site(lines, settings, nodes)
    order = "multifactor" if "priority" in site.rules else "fcfs"
    scheduler = scheduler_from({"schedulertype": "sched/backfill", **settings})
    notes += [f"Its scheduler as a policy: {scheduler.spec(order)}.", *scheduler.left_out]
    if "accountingstorageenforce" in settings:  # a part of a configuration may not say it
        site = replace(site, enforced=enforces_limits(settings["accountingstorageenforce"]))
    held = parsed(settings.get("licenses", ""), f"{where}, Licenses", licences)
    name = settings.get("clustername", path.stem)
    return Described(where, name, tuple(nodes.values()), held, tuple(notes), site)


def _lines(path: Path, text: str, where: str, notes: list[str], depth: int) -> Iterator[_Line]:
    """Lines with their keys; comments are gone, continued lines are joined, included files are read."""
    number, joined, begin = 0, "", 1
    for line in [*text.split("\n"), ""]:
        number += 1
        bare = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        begin = begin if joined else number
        joined += bare.removesuffix("\\")
        if bare.endswith("\\"):
            continue
        at = f"{where}, line {begin}"
        if match := _INCLUDE.fullmatch(joined):
            yield from _included(path, match[1], at, notes, depth)
        elif rest := _PAIR.sub("", joined).strip():
            raise ClusterError(at, repr(rest[:80]), "KEY=VALUE alone, as Slurm does; values with blanks in quotes")
        elif found := {match[1].lower(): match[2].strip('"') for match in _PAIR.finditer(joined)}:
            for key, other in _ALSO.items():
                if other in found:
                    found.setdefault(key, found.pop(other))
            if not _OF_OTHERS & found.keys() and (odd := {*_OF_NODES, "nodes"} & found.keys()):
                raise ClusterError(f"{at}, {min(odd)}", next(iter(found)), "NodeName, PartitionName or NodeSet first")
            yield _Line(at, found)
        joined = ""


def _included(path: Path, name: str, at: str, notes: list[str], depth: int) -> Iterator[_Line]:
    if depth >= _DEEPEST:
        raise ClusterError(at, f"files that include each other over {_DEEPEST} deep", "fewer")
    for file in (path.parent / name, path.parent / Path(name).name):
        try:
            text = file.read_text(encoding="utf-8-sig", errors="replace")
        except (OSError, ValueError):
            continue
        yield from _lines(file, text, str(file), notes, depth + 1)
        return
    notes.append(f"{name} is included and was not there")


def _node(fields: Mapping[str, str], where: str) -> DescribedNode:
    def number(key: str, default: int) -> int:
        text = fields.get(key.lower(), "")
        return whole(text, f"{where}, {key}") if text else default

    each, threads, cpus = number("CoresPerSocket", 1) or 1, number("ThreadsPerCore", 1) or 1, number("CPUs", 0)
    sockets = number("Boards", 1) * number("SocketsPerBoard", 0) or number("Sockets", 0)
    sockets = sockets or (cpus // (each * threads) if cpus and cpus % (each * threads) == 0 else 1)
    cores = sockets * each
    if cpus not in (sockets, cores):
        cpus = cores * threads  # as Slurm does, which notes it in its log
    threads = threads if cpus > cores else 1
    if listed := fields.get("cpuspeclist"):  # cores are kept whole
        numbers = [one[1:] for one in parsed(f"c[{listed}]", f"{where}, CpuSpecList", expand)]
        kept = len({int(one) // threads for one in numbers})
    else:
        kept = number("CoreSpecCount", 0)
        kept = kept if kept < cores else 1
    cpus -= kept * threads
    memory, kept = number("RealMemory", 0), number("MemSpecLimit", 0)
    memory -= kept if kept < memory else 0
    said = parsed(fields.get("gres", ""), f"{where}, Gres", gres)
    words = node_words(fields.get("state", "")) - {"UNKNOWN"}
    return _described("", cpus, memory or None, said, (), words, fields.get("feature", ""))


def _site(lines: list[_Line], settings: Mapping[str, str], nodes: Mapping[str, DescribedNode]) -> SaidSite:
    """The partitions, and what is not taken over."""
    sets: dict[str, list[str]] = {}
    for line in lines:
        if name := line.fields.get("nodeset"):
            feature = line.fields.get("feature")
            sets[name] = [one for one, node in nodes.items() if feature in node.features]
            sets[name] += members_of(line.fields.get("nodes", ""), line.where, sets, list(nodes))
    lost, lost_of = Lost(), Lost()
    for line in lines:
        for key, value in line.fields.items() if "nodename" in line.fields else ():
            if key not in _OF_NODES | _QUIET and not says_nothing(value):
                lose(lost, f"{spelled(key)} of nodes is not taken over", line.fields["nodename"], value)
    partitions, members = dict[str, Keys](), dict[str, list[str]]()
    usual: dict[str, str] = {}
    for line in lines:
        name = line.fields.get("partitionname", "")
        if name.upper() == "DEFAULT":
            usual |= line.fields
        elif name in partitions:
            lose(lost, "Of partitions that are there twice the first counts, as in Slurm", name)
        elif name:
            fields = {**usual, **line.fields}
            fields.setdefault("oversubscribe", fields.pop("shared", ""))  # what it was called before 17.11
            partitions[name] = partition_keys(fields, line.where, lost_of)
            members[name] = members_of(fields.get("nodes", ""), line.where, sets, [ALL])
    where = lines[0].where.rpartition(", line ")[0] if lines else ""
    rules = {"priority": priority_of(settings, where, lost), "preempt": preempt_of(settings, where, lost)}
    rules = {name: table for name, table in rules.items() if table}
    if not says_nothing(text := settings.get("overtimelimit", "")):
        rules |= over_time(text, f"{where}, OverTimeLimit")
    return SaidSite(partitions, members=members, rules=rules, lost=lost, lost_of_partitions=lost_of)


def _facts(lines: list[_Line], settings: Mapping[str, str]) -> Iterator[str]:
    """What changes the meaning of the numbers."""
    select, parameters = settings.get("selecttype", ""), settings.get("selecttypeparameters", "")
    if "linear" in select:
        yield "SelectType=select/linear gives jobs whole nodes; here several jobs share a node."
    elif parameters and "memory" not in parameters.lower():
        yield f"SelectTypeParameters={parameters} does not count memory; here the memory of nodes is counted."
    if odd := [word for word in parameters.upper().split(",") if word.strip() in _PLACING]:
        yield f"Of SelectTypeParameters is not taken over: {', '.join(odd)}."
    if not says_nothing(text := settings.get("topologyplugin", "")) and not text.endswith(("none", "default", "flat")):
        yield f"Switches (TopologyPlugin={text}) are not taken over."
    if "suspendprogram" in settings and (text := settings.get("suspendtime", "")) not in ("", "-1", "INFINITE"):
        yield f"Idle nodes are not switched off (SuspendTime={text})."
    weights = {line.fields.get("weight", "1") for line in lines if line.fields.get("nodename", "DEFAULT") != "DEFAULT"}
    if len(weights) > 1:
        yield "Weights of nodes are not taken over: Slurm uses nodes of a low weight first."
    threads = [line.fields.get("threadspercore", "1") for line in lines if "nodename" in line.fields]
    if any(count not in ("1", "") for count in threads):
        yield "A core is a CPU as Slurm counts them (AllocCPUS): a hardware thread where ThreadsPerCore is over 1."
    limits = [f"{spelled(key)}={settings[key]}" for key in _MEMORY if key in settings]
    if limits:
        yield f"Limits of memory are not applied: {', '.join(limits)}."


SHOWN = re.compile(r"\s*NodeName=\S+ .*?\bCPU(Alloc|Tot|Efctv)=", re.DOTALL)
"""What the first record looks like."""
_MOST = 2**31 - 1


def shown_nodes(text: str, where: str, name: str) -> Described:
    """Read what ``scontrol show node`` printed.

    A ClusterError if a record lacks a key, or has a value that cannot be.
    """
    nodes = tuple(_shown(record, where) for record in records(text, "NodeName"))
    return Described(where, name, nodes, site=SaidSite())


def _shown(record: Record, where: str) -> DescribedNode:
    at, fields = f"{where}, line {record.line}", record.fields

    def number(*keys: str) -> int:
        key = next((key for key in keys if key in fields), keys[-1])
        return _whole(fields.get(key), f"{at}, {key}")

    said = parsed(fields.get("Gres", ""), f"{at}, Gres", gres)
    if not said.gres:
        said = parsed(fields.get("CfgTRES", ""), f"{at}, CfgTRES", tres)
    memory = number("RealMemory")
    if "MemSpecLimit" in fields:
        memory = max(memory - number("MemSpecLimit"), 0)
    return _described(
        host_name(fields["NodeName"], f"{at}, NodeName"), number("CPUEfctv", "CPUTot"), memory or None, said,
        fields.get("Partitions", "").split(","), node_words(fields.get("State", "")),
        next((fields[key] for key in ("ActiveFeatures", "AvailableFeatures", "Features") if key in fields), ""),
    )  # fmt: skip


AS_TEXT = {
    "partitions": "scontrol show partition",
    "reservations": "scontrol show reservation",
    "associations": "sacctmgr show assoc tree -P",
    "qos": "sacctmgr show qos -P",
}
"""What JSON of Slurm lists → the command that prints it as it can be read."""


def json_nodes(content: Mapping[str, Any], where: str, name: str) -> Described:
    """Read what ``scontrol show node --json`` printed (in older versions of Slurm also ``sinfo --json``).

    A ClusterError if it has no list ``nodes``, or a node lacks a key or has a value that cannot be.
    """
    nodes = content.get("nodes")
    if other := next((key for key in AS_TEXT if key in content), ""):
        raise ClusterError(where, f"JSON of {other}", f"the same as text: {AS_TEXT[other]}")
    if not isinstance(nodes, list) or not nodes:
        raise ClusterError(f"{where}, nodes", "no list of nodes", "the output of scontrol show node --json")
    found = tuple(_of_json(node, f"{where}, nodes.{place}") for place, node in enumerate(nodes))
    return Described(where, name, found, site=SaidSite())


def _of_json(node: Any, at: str) -> DescribedNode:
    if not isinstance(node, dict) or not isinstance(node.get("name"), str) or not node["name"]:
        raise ClusterError(at, repr(node)[:80], "a node with a name")
    memory = _whole(node.get("real_memory"), f"{at}.real_memory") - _whole(
        node.get("specialized_memory", 0), f"{at}.specialized_memory"
    )
    said = parsed(str(node.get("gres") or ""), f"{at}.gres", gres)
    state = node.get("state")
    words = [state] if isinstance(state, str) else state if isinstance(state, list) else []
    flags = node.get("state_flags")
    words += flags if isinstance(flags, list) else []
    partitions = node.get("partitions")
    listed = ",".join(map(str, partitions)).split(",") if isinstance(partitions, list) else []
    cpus = _whole(node.get("effective_cpus") or node.get("cpus"), f"{at}.cpus")
    features = node.get("active_features") or node.get("features") or ""
    features = ",".join(map(str, features)) if isinstance(features, list) else str(features)
    state = node_words("+".join(map(str, words)))
    name = host_name(node["name"], f"{at}.name")
    return _described(name, cpus, max(memory, 0) or None, said, listed, state, features)


def _described(
    name: str,
    cpus: int,
    memory: int | None,
    said: Tres,
    partitions: Iterable[str],
    words: frozenset[str],
    features: str,
) -> DescribedNode:
    return DescribedNode(
        name,
        cpus,
        memory,
        said.gres.get("gpu", 0),
        "+".join(said.types.get("gpu", ())),
        frozenset(part for part in partitions if part and part != "(null)"),
        "",
        ", ".join(sorted(words & UNUSABLE)).lower(),
        {kind: count for kind, count in said.gres.items() if kind != "gpu" and count},
        tuple(dict.fromkeys(one.strip() for one in features.split(",") if one.strip() not in ("", "(null)"))),
    )


def _whole(value: object, at: str) -> int:
    if isinstance(value, dict):  # {"set": true, "infinite": false, "number": 8}
        value = value.get("number")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise ClusterError(at, "nothing" if value is None else repr(value)[:80], f"a whole number from 0 to {_MOST}")
    return value
