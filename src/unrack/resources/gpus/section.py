"""The section of the report: how the GPUs were used, and how good the placements were, by policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unrack.resources.contract import Kept, Table
from unrack.resources.gpus.lanes import MOST_BARS, MOST_LANES, lanes

HEAD = ("policy", "GPUs in use", "utility", "1/t", "I", "1 - w", "across sockets", "below minimum")
MOST_PICTURES = 4
LANES = f"At most {MOST_LANES} GPUs and {MOST_BARS} pieces are drawn; point at one for its job."
WORDS = (
    "In use: the share of GPU-hours that jobs held. Utility: the mean over starts on whole GPUs; t is what "
    "communication costs over the least possible, I what neighbours leave of the speed, w the share of the machine's "
    "GPUs that was free. Across sockets: the share of jobs with several GPUs that have them at several sockets. Below "
    "minimum: starts with less utility than asked."
)


def tables(runs: Sequence[Kept]) -> tuple[Table, ...]:
    """One table: a row a policy, over its seeds."""
    policies = dict.fromkeys(run.policy for run in runs)
    rows = tuple(_row(policy, [run for run in runs if run.policy == policy]) for policy in policies)
    return (Table("Placements", WORDS, HEAD, rows), *_pictures(runs)) if rows else ()


def _pictures(runs: Sequence[Kept]) -> Iterator[Table]:
    """Of the first run of every policy, who was on which GPU when."""
    first = {run.policy: run for run in reversed(runs)}
    for policy in list(dict.fromkeys(run.policy for run in runs))[:MOST_PICTURES]:
        run = first[policy]
        if picture := lanes(run.claims, run.written):
            yield Table(f"GPUs over time, {policy}", f"A lane a GPU, a colour a job. {LANES}", (), (), picture)


def _row(policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    def mean(name: str) -> float | None:
        known = [value for run in runs if (value := run.metrics.get(name)) is not None]
        return sum(known) / len(known) if known else None

    used, utility, near, alone, free, across, below = (
        mean(name) for name in ("used_gpus", "utility_mean", "gpu_nearness_mean", "gpu_interference_mean",
                                "gpu_free_share_mean", "gpus_across_sockets", "below_min_utility")
    )  # fmt: skip
    return (
        policy, _text(used, 100, " %"), _text(utility, 1, "", 3), _text(near, 1, "", 3), _text(alone, 1, "", 3),
        _text(None if free is None else 1 - free, 1, "", 3), _text(across, 100, " %"), _text(below, 1, ""),
    )  # fmt: skip


def _text(value: float | None, times: float, unit: str, digits: int = 1) -> str:
    return "–" if value is None else f"{times * value:.{digits}f}{unit}"
