"""Servers that a service of recommendation models takes, with and without disaggregation (Yang et al. 2025)."""

from __future__ import annotations

from unrack_papers.claim import Claim, exceeds, lies, together
from unrack_papers.options import Options
from unrack_papers.pages.figure import bars
from unrack_papers.reproduction import Point, Quantity, Reproduction, Row
from unrack_papers.yang.fleets import APART, MIXED, MONOLITHIC, fleets

EIGHT, FOUR = "8 GPUs a server", "4 GPUs a server"
GPUS_OF = {EIGHT: 8, FOUR: 4}
GROUPS = {EIGHT: (96, 128, 192), FOUR: (128,)}
"""Servers with GPUs: how many, and their cores. The published list does not say."""
CPU_SERVER_CORES = 192
"""Of a server without GPUs: the largest instance in the list has as many."""
USUAL = 128
POLICY = "list(backfill=any, wait=no, place=best-fit)"
WHOLE = Row("Monolithic", POLICY, MONOLITHIC)
SPLIT = Row("Disaggregated, roles apart", POLICY, APART)
SHARED = Row("Disaggregated, on any server", POLICY, MIXED)
ROWS = (WHOLE, SPLIT, SHARED)
GPU_SERVERS = Quantity("GPU servers", "gpu_servers", 1, 0)
CPU_SERVERS = Quantity("CPU servers", "cpu_servers", 1, 0)
IDLE_GPUS = Quantity("idle GPUs", "idle_gpus", 100, 1, "%")
IDLE_CORES = Quantity("idle cores", "idle_cores", 100, 1, "%")
GPUS_STRANDED = Quantity("stranded GPUs", "stranded_gpus", 100, 1, "%")
CORES_STRANDED = Quantity("stranded cores", "stranded_cores", 100, 1, "%")
GPUS_CHANGE = Quantity("change of stranded GPUs", "change_stranded_gpus", 100, 0, "%", tolerance=5)
CORES_CHANGE = Quantity("change of stranded cores", "change_stranded_cores", 100, 0, "%", tolerance=5)
EIGHTS = GROUPS[EIGHT]

REPRODUCTION = Reproduction(
    name="flow-dlrm",
    shows="No figure",
    paper="Yang et al. 2025 (USENIX NSDI)",
    summary="Servers for recommendation models with and without disaggregation, and what is stranded",
    setup="The instances of the published list that run when most GPUs are asked for, on as few servers as best fit "
    "needs, largest first, with at most as many of an app on a server as the list says. Monolithic: each instance with "
    "a GPU has the cores of its share of its app's instances without; what does not fit on a server becomes several, "
    "each with a GPU. Disaggregated: instances with GPUs on GPU servers, those without on CPU servers, or on any that "
    "has room. Idle: what nobody has. Stranded: what is idle on servers on which no instance would fit. The list is a "
    "file: --trace.",
    points=tuple(
        Point(group, cores, {"gpus": GPUS_OF[group], "cores": cores, "cpu_server_cores": CPU_SERVER_CORES}, ROWS)
        for group, several in GROUPS.items()
        for cores in several
    ),
    quantities=(
        GPU_SERVERS, CPU_SERVERS, IDLE_GPUS, IDLE_CORES, GPUS_STRANDED, CORES_STRANDED, GPUS_CHANGE, CORES_CHANGE,
    ),
    claims=(
        Claim("GPU fragmentation falls by 27 %: 22 to 32", "abstract",
              lies(GPUS_CHANGE.label, SHARED.name, [EIGHT], [USUAL], -32, -22)),
        Claim("CPU fragmentation falls by 53 %: 48 to 58", "abstract",
              lies(CORES_CHANGE.label, SHARED.name, [EIGHT], [USUAL], -58, -48)),
        Claim("Ours: disaggregation takes fewer GPU servers, whatever they are", "this project",
              together(*(exceeds(GPU_SERVERS.label, WHOLE.name, one.name, [group], several)
                         for one in (SPLIT, SHARED) for group, several in GROUPS.items()))),
        Claim("Ours: with roles apart, GPU servers of 128 cores or more strand more cores than monoliths do",
              "this project", exceeds(CORES_STRANDED.label, SPLIT.name, WHOLE.name, [EIGHT], EIGHTS[1:])),
        Claim("Ours: on any server, fewer cores are stranded than with monoliths", "this project",
              exceeds(CORES_STRANDED.label, WHOLE.name, SHARED.name, [EIGHT], EIGHTS)),
    ),
    draw=bars(IDLE_GPUS.label, "idle GPUs, %", width=200),
    x_title="cores of a GPU server",
    group_title="GPU servers",
    printed={(EIGHT, USUAL, SHARED.name): {GPUS_CHANGE.label: -27, CORES_CHANGE.label: -53}},
    notes=(
        "The servers are assumptions: the list does not say what instances run on. GPU servers have 8 GPUs and 96, 128 "
        "or 192 cores, or 4 and 128; a CPU server has 192, as many as the largest instance.",
        "The paper measures a crowded cluster in which other services run beside this one; here the fleet is made for "
        "the service alone, and as small as can be. So the two percentages are not of the same thing, and no agreement "
        "is to be expected.",
        "Monoliths are reckoned, as the list has none. Where an app asks for more cores beside a GPU than a server "
        "has, it becomes several monoliths with a GPU each.",
        "A list of half of the instances has fewer of each app to share a server.",
        "Memory, disks and NICs are not looked at.",
        "The fleet is that of one moment; a service that grows needs more.",
    ),
    defaults=Options(seeds=1),
    takes=frozenset({"trace"}),
    solve=fleets,
    exact=True,
)  # fmt: skip
