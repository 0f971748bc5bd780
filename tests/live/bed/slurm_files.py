"""What a test cluster is to be like, and the files of Slurm that say so."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GPU_MAJOR = 195


@dataclass(frozen=True)
class Layout:
    """What a test cluster is to be like.

    ``partitions`` has names → lists of hosts, ``""``: all; the first is the one for jobs that name none. ``nvme``,
    ``gpus``, ``shards`` and ``mps`` are of each node.
    ``scheduler`` is ``builtin`` or ``backfill``. ``hooks`` has keys of slurm.conf (``Prolog``, ``Epilog``,
    ``PrologSlurmctld``, ``EpilogSlurmctld``) → paths of scripts. ``job_submit`` is the text of a job_submit.lua,
    ``""``: none. ``node_words`` are more words on the line of the nodes, ``extra`` more lines for slurm.conf.
    ``features`` has a word such as ``fast,ib`` for each node; ``""``: the node has none.
    """

    nodes: int = 16
    cores: int = 8
    sockets: int = 1
    memory_mb: int = 32_000
    nvme: int = 4
    gpus: int = 0
    shards: int = 0
    mps: int = 0
    partitions: Mapping[str, str] = field(default_factory=lambda: {"main": ""})
    licences: Mapping[str, int] = field(default_factory=dict)
    scheduler: str = "builtin"
    parameters: str = "sched_interval=1,bf_interval=1,batch_sched_delay=1"
    remember_s: int = 300
    job_submit: str = ""
    node_words: str = "ThreadsPerCore=1"
    hooks: Mapping[str, Path] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of its nodes."""
        return [f"n{number}" for number in range(1, self.nodes + 1)]


def write(folder: Path, layout: Layout, ports: range) -> Path:
    """Write slurm.conf and what goes with it; return its path. The first port is the controller's."""
    for name in ("run", "state", "spool", "log", "dev"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    gpus = _gpu_files(folder / "dev", layout.gpus)
    (folder / "gres.conf").write_text(_gres_conf(layout, gpus))
    if layout.job_submit:
        (folder / "job_submit.lua").write_text(layout.job_submit)
    path = folder / "slurm.conf"
    path.write_text(_slurm_conf(folder, layout, ports, socket.gethostname().split(".")[0]))
    return path


def _slurm_conf(folder: Path, layout: Layout, ports: range, host: str) -> str:
    amounts = {"nvme": layout.nvme, "gpu": layout.gpus, "shard": layout.shards, "mps": layout.mps}
    gres = [name for name, count in amounts.items() if count]
    counts = [f"{'gpu:a100' if name == 'gpu' else name}:{amounts[name]}" for name in gres]
    lines = [
        "ClusterName=bed",
        f"SlurmctldHost={host}(127.0.0.1)",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"SlurmctldPort={ports[0]}",
        f"SlurmctldPidFile={folder}/run/slurmctld.pid",
        f"SlurmdPidFile={folder}/run/slurmd.%n.pid",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldLogFile={folder}/log/slurmctld.log",
        f"SlurmdLogFile={folder}/log/slurmd.%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "MpiDefault=none",
        "ReturnToService=2",
        "KillWait=2",
        f"MinJobAge={layout.remember_s}",
        f"SchedulerType=sched/{layout.scheduler}",
        f"SchedulerParameters={layout.parameters}",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "AccountingStorageType=accounting_storage/none",
        "SlurmdParameters=config_overrides",
        *(f"{key}={path}" for key, path in layout.hooks.items()),
        *(["JobSubmitPlugins=lua"] if layout.job_submit else []),
        *([f"GresTypes={','.join(gres)}"] if gres else []),
        *([f"Licenses={','.join(f'{name}:{n}' for name, n in layout.licences.items())}"] if layout.licences else []),
        *layout.extra,
        *(
            f"NodeName={names} NodeHostname={host} NodeAddr=127.0.0.1 Port={own} CPUs={layout.cores} "
            f"Sockets={layout.sockets} "
            f"CoresPerSocket={layout.cores // layout.sockets // (2 if 'ThreadsPerCore=2' in layout.node_words else 1)} "
            f"{layout.node_words} RealMemory={layout.memory_mb} State=UNKNOWN"
            + (f" Gres={','.join(counts)}" if counts else "") + (f" Features={words}" if words else "")
            for names, own, words in _lines(layout, ports)
        ),
    ]  # fmt: skip
    default = "YES"
    for name, hosts in layout.partitions.items():
        nodes = hosts or f"n[1-{layout.nodes}]"
        lines.append(f"PartitionName={name} Nodes={nodes} Default={default} MaxTime=INFINITE State=UP")
        default = "NO"
    return "\n".join(lines) + "\n"


def _lines(layout: Layout, ports: range) -> list[tuple[str, str, str]]:
    """Names, ports and features of the nodes, a line for all, or for each where they have features."""
    if not layout.features:
        return [(f"n[1-{layout.nodes}]", f"[{ports[1]}-{ports[layout.nodes]}]", "")]
    return [(name, str(ports[i]), layout.features[i - 1]) for i, name in enumerate(layout.names, 1)]


def _gres_conf(layout: Layout, gpus: str) -> str:
    lines = ["AutoDetect=off"]
    if layout.nvme:
        lines.append(f"Name=nvme Count={layout.nvme}")
    if layout.gpus:
        lines.append(f"Name=gpu Type=a100 File={gpus}")
    shares = {"shard": layout.shards, "mps": layout.mps}
    lines += [f"Name={name} Count={count}" for name, count in shares.items() if count]
    return "\n".join(lines) + "\n"


def _gpu_files(folder: Path, count: int) -> str:
    """Device files for Slurm to look at; nothing is behind them. ``PermissionError`` where none may be made."""
    for number in range(count):
        path = folder / f"gpu{number}"
        if not path.exists():
            os.mknod(path, 0o600 | 0o020000, os.makedev(GPU_MAJOR, number))
    return f"{folder}/gpu[0-{count - 1}]" if count > 1 else f"{folder}/gpu0"
