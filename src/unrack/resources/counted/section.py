"""The section of the report: of every counter what there was, how much of it was used, and by how many jobs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from unrack.resources.contract import Kept, Table

HEAD = ("policy", "jobs", "in use", "peak", "all out", "amount x hours")


def tables(runs: Sequence[Kept]) -> tuple[Table, ...]:
    """One table for every counter: a row a policy, over its seeds."""
    if not runs:
        return ()
    policies = dict.fromkeys(run.policy for run in runs)
    return tuple(
        Table(
            file["name"], _words(file), HEAD,
            tuple(_row(file["name"], policy, [run for run in runs if run.policy == policy]) for policy in policies),
        )
        for file in runs[0].written
    )  # fmt: skip


def _words(file: dict[str, object]) -> str:
    where = "in each rack" if file["per"] == "rack" else "on the cluster"
    return (
        f"Installed: {file['amount']} {where}. In use: the mean over time; peak: the most at any time"
        f"{', in one rack' if file['per'] == 'rack' else ''}; all out: the share of the time in which nothing was left"
        f"{' in some rack' if file['per'] == 'rack' else ''}."
    )


def _row(name: str, policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    jobs, hours = 0, 0.0
    for run in runs:
        own = run.claims.filter(pl.col("quantity") == name)
        jobs += own["job"].n_unique()
        hours += float((own["amount"] * (own["end_s"] - own["start_s"])).sum()) / 3600
    shares = [_mean([run.metrics.get(f"{stem}_counted_{name}") for run in runs]) for stem in ("used", "peak", "full")]
    return policy, f"{jobs / len(runs):,.0f}", *shares, f"{hours / len(runs):,.1f}"


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * sum(known) / len(known):.1f} %" if known else "–"
