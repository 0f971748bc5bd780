"""Run times of training jobs on a Minsky: measured ones of a file, or those that follow from the thesis's text.

The text prints few: AlexNet with the smallest batch on one GPU ends about 70 s after it began (Fig. 17, job 0); its 40
iterations compute for 1 s with batches of 1 and for 66 s with those of 128, and communicate for 2 s with any (section
3.2.3). From these alone: computing grows linearly with the batch, a job takes 70 s x (computing + communicating) / 3 s
on any number of GPUs, and all networks take the same.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from unrack.errors import InputError
from unrack_papers.workloads.measured_times import SOLO, read_times
from unrack_papers.workloads.training import BATCH_SIZES, NETWORKS

FIRST_JOB_S = 70.0
COMMUNICATES_S, COMPUTES_S = 2.0, (1.0, 66.0)
"""Of 40 iterations: communication; computation with the smallest and the largest batch."""
BUILT_IN = "deep-learning"
"""Factors for GPUs that are apart, and for neighbours, where no file of times is given."""
LIKE = {"cafferef": "alexnet"}
"""Networks that a file of times has not → those whose times and factors they take."""
HEADER = ("kind", "application", "batch_size", "gpus", "other_application", "other_batch_size", "other_gpus",
          "placement", "time_s")  # fmt: skip


def of_the_text_s(batch_size: int) -> float:
    """The run time in s that follows from the text.

    Examples
    --------
    >>> round(of_the_text_s(1)), round(of_the_text_s(4)), round(of_the_text_s(128))
    (70, 106, 1587)
    """
    least, most = COMPUTES_S
    computes_s = least + (most - least) * (batch_size - 1) / (BATCH_SIZES[-1] - 1)
    return FIRST_JOB_S * (computes_s + COMMUNICATES_S) / (least + COMMUNICATES_S)


@contextmanager
def times_file(given: str | None) -> Iterator[str]:
    """The path of a file of times: what is given, or those of the text, written for as long as they are needed."""
    if given is not None:
        yield given
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "times.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(HEADER)
            for network in NETWORKS:
                for size in BATCH_SIZES:
                    rows.writerow([SOLO, network, size, 1, "", "", "", "intra", of_the_text_s(size)])
        yield str(path)


def profiles_of(given: str | None) -> str:
    """Where factors are from: the file of times, or those that come with unrack."""
    return given or BUILT_IN


def named(app: str, given: str | None) -> str:
    """An application as profiles call it: one that a file of times has not is called by the one that it is like.

    Examples
    --------
    >>> named("cafferef/1", None), named("cafferef/1", "times.csv")
    ('cafferef/1', 'alexnet/1')
    """
    network, _, size = app.partition("/")
    return app if given is None else f"{LIKE.get(network, network)}/{size}"


def networks_of(given: str | None) -> list[str]:
    """The networks that jobs are drawn of, named as profiles call them."""
    return [named(f"{network}/1", given).partition("/")[0] for network in NETWORKS]


def alone_s(path: str, app: str, gpus: int) -> float:
    """The time of an application alone, s.

    Raises
    ------
    InputError
        The file has none.
    """
    times = read_times(path)
    found = times.best(app, gpus)
    if found is None:
        raise InputError("--times", f"{path} without {app}", f"times of it, beside those of {times.known()}")
    return found.time_s
