"""GPUs that can be allocated before fragmentation turns pods away (Weng et al. 2023, section 6).

A cluster of shared GPUs that is filled with pods until it turns some away.

Pods of a cluster with shared GPUs, as Alibaba published them in 2023.

References
----------
Weng et al.: Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient descent. USENIX ATC
2023.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack import Cluster, Result, Workload, simulate
from unrack.cluster import content_of
from unrack.errors import InputError
from unrack.resources.gpus import WHOLE
from unrack.workload import JobTable, draw_again
from unrack.workload.formats import (
    EXTRA,
    Source,
    Tally,
    amounts,
    choice,
    load,
    make_format,
    refuse,
    time_option_us,
    time_unit_us,
    times_us,
    unheeded,
    workload,
)
from unrack_papers.claim import Claim, exceeds, lies, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.figure import curves
from unrack_papers.pages.sheet import TONES, Cell, Sheet, line, named, number, signed
from unrack_papers.reproduction import Numbers, Point, Quantity, Reproduction, Row, Task, Values
from unrack_papers.workloads.measured_times import Fields, asked

GIVEAWAY = ("cpu_milli", "num_gpu")
"""Columns that give the format of Alibaba's lists of pods of 2023 away."""

_NEEDED = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIMES = ("creation_time", "deletion_time", "scheduled_time")
_MODELS = "gpu_spec"


def read_openb(
    path: str | os.PathLike[str] | Source, *, cpu: str = "whole", run: float | str | None = None
) -> Workload:
    """Read pods of a cluster with shared GPUs, as Alibaba published them in 2023; each becomes a job of one task.

    The header is ``name,cpu_milli,memory_mib,num_gpu,gpu_milli``, with or without
    ``gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time``.

    Parameters
    ----------
    path
        The file.
    cpu
        ``"whole"``: cores, rounded up; ``"milli"``: thousandths of a core, for a cluster of cores counted so.
    run
        The run time of every pod, s or text such as ``"1 h"``, in place of what the file says. Needed for a list
        without times; its pods are submitted one a second.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or has a value that cannot be.
    InputError
        An option has a value it cannot have, or the list has no run times and ``run`` does not give them.
    """
    choice("cpu", cpu, ("whole", "milli"))
    run_us = None if run is None else time_option_us("run", run, "a time such as '1 h'")
    source = load(path)
    fields = Fields.of(source, _NEEDED)
    timed = all(name in fields.frame.columns for name in _TIMES[:2])
    if not timed and run_us is None:
        raise InputError(
            f"{source.path}: run times", "none", f"the columns {' and '.join(_TIMES[:2])}, or the option run = '1 h'"
        )
    count, milli = fields.count("num_gpu", 0), fields.count("gpu_milli", 0, WHOLE)
    refuse((count > 0) & (milli == 0), milli, "gpu_milli", fields.at, "1 to 1000 of each GPU asked for")
    refuse((count == 0) & (milli > 0), milli, "gpu_milli", fields.at, "0, as num_gpu is 0")
    cores = amounts(fields.number("cpu_milli"), "cpu_milli", fields.at, Fraction(1, 1 if cpu == "milli" else 1000))
    rows = fields.frame.height
    columns = [
        fields.text("name").alias("id"),
        *_times(fields, rows, timed, run_us),
        pl.Series("tasks", np.ones(rows, np.int64)),
        cores.clip(lower_bound=1).alias("cores"),
        amounts(fields.number("memory_mib"), "memory_mib", fields.at, Fraction(1)).alias("memory_mb"),
        count.alias(asked("count")),
        milli.replace({WHOLE: 0}).alias(asked("milli")),
    ]
    if _MODELS in fields.frame.columns:
        columns += [fields.frame[_MODELS].alias(f"{EXTRA}gpu_models"), *unheeded([fields.frame[_MODELS]])]
    columns += fields.rest((*_NEEDED, *_TIMES, _MODELS))
    header = {"Columns": "cores in thousandths" if cpu == "milli" else "cores rounded up"}
    return workload(source, "openb", rows, pl.DataFrame(columns), Tally(), "truncate", header)


def _times(fields: Fields, rows: int, timed: bool, run_us: int | None) -> list[pl.Series]:
    """``submit_us`` and ``work_us``; a pod runs from its start, or else its creation, to its deletion."""
    second = time_unit_us("s")
    read = {
        name: times_us(fields.number(name, gaps=name != _TIMES[0]), name, fields.at, second)
        for name in _TIMES
        if name in fields.frame.columns
    }
    created = read.get(_TIMES[0], pl.Series(np.arange(rows, dtype=np.int64) * int(second)))
    if run_us is not None or not timed:
        assert run_us is not None
        all_alike = pl.Series(np.full(rows, run_us, np.int64))
        return [created.alias("submit_us"), all_alike.alias("work_us"), all_alike.alias("request_us")]
    deleted = read[_TIMES[1]]
    begun = pl.select(pl.max_horizontal(read.get(_TIMES[2], created).fill_null(created), created)).to_series()
    early = (deleted < begun).fill_null(False)
    refuse(early, fields.frame[_TIMES[1]], _TIMES[1], fields.at, "a time after the pod was created and scheduled")
    return [created.alias("submit_us"), (deleted - begun).alias("work_us")]


FORMAT = make_format(read_openb, "CSV of pods that share GPUs (Alibaba 2023)", "memory counted", giveaway=GIVEAWAY)
"""What unrack finds under the name ``openb``."""


RUN = "100 d"
"""Pods stay."""
ASKED = 1.3
"""What they ask for in all, over the GPUs that there are."""
LEVELS = tuple(range(5, 131, 5))
"""Demand that has arrived, % of the GPUs, at which it is noted how many are allocated."""
WITHOUT_MEMORY, WITH_MEMORY = "DEMANDS", "DEMANDS-WITH-MEMORY"
"""Stand in a policy for a file of what the pods of the list ask."""

Floats = NDArray[np.float64]


def filled(task: Task) -> list[Numbers]:
    """``at.100`` …: for each row and each of ``LEVELS`` the share of the GPUs that is allocated then.

    Raises
    ------
    InputError
        There are no files of pods and nodes.
    """
    pods, nodes = task.workload.get("pods"), task.workload.get("nodes")
    if pods is None or nodes is None:
        got = f"no {'--pods' if pods is None else '--nodes'}"
        raise InputError("gpu-fragmentation", got, "--pods FILE and --nodes FILE, openb lists of pods and nodes")
    cluster, gpus = cluster_of(nodes)
    pod_list = read_openb(pods, cpu="milli", run=RUN)
    drawn = draw_again(pod_list, {"amount": "gpus", "of": gpus, "share": task.workload.get("asked", ASKED)}, task.seed)
    with TemporaryDirectory() as folder:
        files = {
            WITH_MEMORY: write_demands(pod_list.jobs, Path(folder) / "with-memory.csv", True),
            WITHOUT_MEMORY: write_demands(pod_list.jobs, Path(folder) / "demands.csv", False),
        }
        return [allocated(_run(cluster, drawn, row.policy, files, task.seed), gpus) for row in task.rows]


def _run(cluster: Cluster, drawn: Workload, policy: str, files: Mapping[str, str], seed: int) -> Result:
    for name, path in files.items():
        policy = policy.replace(f"demands={name})", f"demands={path})")
    return simulate(cluster, drawn, policy, seed=seed, audit=False)


def cluster_of(path: str) -> tuple[Cluster, int]:
    """The nodes with GPUs of a list, cores in thousandths, and how many GPUs they have."""
    content = content_of(path, milli=True)
    gpus = sum(run["count"] * of["machine"]["gpus"] for run, of in zip(content["nodes"], content["gpus"], strict=True))
    return Cluster.from_dict({**content, "name": "openb"}, path), gpus


def write_demands(jobs: JobTable, path: Path, memory: bool) -> str:
    """Write what the pods of a list ask and how often; ``memory``: count that in, too. Returns the path."""
    counts = Counter(
        zip(
            jobs.cores.tolist(),
            jobs.memory_mb.tolist() if memory else [0] * len(jobs),
            jobs.devices["gpus", "count"].tolist(),
            np.where(jobs.devices["gpus", "milli"] == 0, WHOLE, jobs.devices["gpus", "milli"]).tolist(),
            strict=True,
        )
    )
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["cores", "memory_mb", "gpus", "milli", "share"])
        rows.writerows([*demand, count / len(jobs)] for demand, count in sorted(counts.items()))
    return str(path)


def allocated(result: Result, gpus: int) -> Numbers:
    """The share of the GPUs that is allocated when demand has first reached each level; none where it never does."""
    jobs = result.jobs
    milli = jobs["gpus.milli"].to_numpy()
    asked: Floats = jobs["gpus.count"].to_numpy() * np.where(milli == 0, WHOLE, milli) / WHOLE
    demand, held = np.cumsum(asked), np.cumsum(asked * jobs["start_s"].is_not_null().to_numpy())
    values: Numbers = {"turned_away": float(jobs["start_s"].is_null().sum())}
    for level in LEVELS:
        at = int(np.searchsorted(demand, gpus * level / 100))
        values[f"at.{level}"] = float(held[at] / gpus) if at < len(held) else None
    return values


GROUP, FULL = "GPUs allocated", 100
ALLOCATED = Quantity("GPUs allocated", "allocated", 100, 1, "%", tolerance=0.5)
TURNED_AWAY = Quantity("pods turned away", "turned_away", 1, 0)
AS_AUTHORS = "{}, as the authors"
PAPER = {"FGD": 95.2, "Best fit": 92.9, "Packing": 91.78, "Clustering": 91.65, "Dot product": 90.6, "Random": 86.3}
PAPER |= {AS_AUTHORS.format(name): PAPER[name] for name in ("Packing", "Clustering")}
"""Means over ten orders, %."""


def row(name: str, rule: str, printed: bool = True) -> Row:
    """A rule that places each pod at once, or turns it away."""
    return Row(name, f"list(backfill=any, wait=no, gpus={rule})", "openb", printed=printed)


FGD = row("FGD", f"fgd, demands={WITHOUT_MEMORY}")
SEEN = row("FGD, demands seen", "fgd", False)
OURS = row("Foresight", f"foresight, demands={WITH_MEMORY}", False)
OURS_SEEN = row("Foresight, demands seen", "foresight", False)
BEST_FIT, PACKING = row("Best fit", "least-left"), row("Packing", "packing")
CLUSTERING, DOT, RANDOM = row("Clustering", "clustering"), row("Dot product", "dot-product"), row("Random", "random")
THEIR_PACKING = row(AS_AUTHORS.format("Packing"), "packing-as-authors")
THEIR_CLUSTERING = row(AS_AUTHORS.format("Clustering"), "clustering-as-authors")
ROWS = (FGD, SEEN, OURS, OURS_SEEN, BEST_FIT, PACKING, THEIR_PACKING, CLUSTERING, THEIR_CLUSTERING, DOT, RANDOM)
OTHERS = [one.name for one in (BEST_FIT, THEIR_PACKING, THEIR_CLUSTERING, DOT, RANDOM)]


def along_demand(values: Values) -> Values:
    """A place for each level of demand."""
    found: Values = {}
    for level in LEVELS:
        for (group, _, name), seeds in values.items():
            more = ("turned_away",) if level == FULL else ()
            found[group, level, name] = tuple(
                {"allocated": seed.get(f"at.{level}"), **{key: seed.get(key) for key in more}} for seed in seeds
            )
    return found


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    lines = []
    for own in ROWS:
        found = measured.compared((GROUP, FULL, own.name), ALLOCATED.label)
        paper = "–" if found.paper is None else f"{found.paper:.1f}"
        difference = "–" if found.difference is None else signed(found.difference, 1)
        verdict = Cell(("–",)) if found.verdict is None else Cell((str(found.verdict),), TONES[found.verdict])
        away = number(measured.at((GROUP, FULL, own.name), TURNED_AWAY.label), 0)
        lines.append(line(named(own), paper, number(found.ours, 1), difference, verdict, away))
    heads = ("", "paper, %", "ours, %", "difference", "verdict", "pods turned away\nin all")
    return (Sheet("GPUs allocated when pods have asked for all of them", heads, tuple(lines), 1),)


REPRODUCTION = Reproduction(
    name="gpu-fragmentation",
    shows="Section 6",
    paper="Weng et al. 2023 (USENIX ATC)",
    summary="GPUs allocated when pods have asked for all of them, by placement",
    setup="Pods are drawn from a list with replacement until they ask for 130 % of the GPUs of a cluster, come one "
    "after the other and stay. A pod without a place is turned away. Compared is how many of the GPUs are allocated "
    "when the pods that have come ask for all of them. Both lists are files: --pods and --nodes.",
    points=(Point(GROUP, FULL, {}, ROWS),),
    quantities=(ALLOCATED, TURNED_AWAY),
    claims=(
        Claim("Fragmentation gradient descent allocates most", "§6",
              together(*(exceeds(ALLOCATED.label, FGD.name, name, [GROUP], [FULL]) for name in OTHERS))),
        Claim("It allocates 95.2 %: 94.2 to 96.2", "§6", lies(ALLOCATED.label, FGD.name, [GROUP], [FULL], 94.2, 96.2)),
        Claim("Best fit is second", "§6",
              together(*(exceeds(ALLOCATED.label, BEST_FIT.name, name, [GROUP], [FULL]) for name in OTHERS[1:]))),
        Claim("Random is last, by 3 points or more", "§6",
              together(*(exceeds(ALLOCATED.label, name, RANDOM.name, [GROUP], [FULL], by=3) for name in OTHERS[:-1]))),
        Claim("Ours: foresight allocates more than FGD", "this project",
              together(exceeds(ALLOCATED.label, OURS.name, FGD.name, [GROUP], [FULL]),
                       exceeds(ALLOCATED.label, OURS_SEEN.name, SEEN.name, [GROUP], [FULL]))),
    ),
    draw=curves(ALLOCATED.label, "GPUs allocated, %", {GROUP: (GROUP, [one.name for one in ROWS])}, width=560),
    x_title="GPUs asked for, %",
    printed={(GROUP, FULL, name): {ALLOCATED.label: value} for name, value in PAPER.items()},
    notes=(
        "The definition of fragmentation in the paper has cores and GPUs; a pod fits by its memory, too. FGD and "
        "foresight know the demands of the list, as in the paper, or only those of the pods that have come.",
        "Growth of fragmentation is rounded to a mark of 0 to 100, as schedulers of Kubernetes do, and equal marks go "
        "to the first node. In three orders without rounding FGD allocated 94.2 %, with ties drawn at random 89.7 %.",
        "Packing and clustering by the paper's words prefer the fullest node, also for pods without GPUs: "
        "that is 2.5 points more than published. As the authors have them, with their plug-ins' marks, a pod "
        "without GPUs has the mark 0 everywhere and goes to the first node, pods on whole GPUs find all busy "
        "nodes that hold them equally good, clustering takes all parts of a GPU for one kind and asks whether "
        "a node has other kinds, and equal marks go to the first node. Claims of the paper are held to these. "
        "They are 0.8 points below the published means, which is not explained: orders are drawn by another "
        "generator, and theirs were not at hand.",
        "Foresight is not the paper's but unrack's own.",
        "The models of GPUs that some pods ask for are not looked at.",
    ),
    defaults=Options(seeds=10),
    takes=frozenset({"seeds", "pods", "nodes"}),
    solve=filled,
    derive=along_demand,
    tables=_tables,
)  # fmt: skip
