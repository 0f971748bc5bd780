"""GPUs that can be allocated before fragmentation turns pods away (Weng et al. 2023, section 6)."""

from __future__ import annotations

from unrack_papers.claim import Claim, exceeds, lies, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.figure import curves
from unrack_papers.pages.sheet import TONES, Cell, Sheet, line, named, number, signed
from unrack_papers.reproduction import Point, Quantity, Reproduction, Row, Values
from unrack_papers.weng.filling import LEVELS, WITH_MEMORY, WITHOUT_MEMORY, filled

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
