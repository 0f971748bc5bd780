"""How requested times depend on sizes, and accuracies on both: normal scores that differ from class to class.

A job's normal score is the normal number that has its rank. In a class of jobs the scores have a mean and a spread;
what is drawn is a normal number with these, turned back into a rank by the distribution of the scores over all classes:
so the distribution of each property over all jobs stays what it is, however it depends on the others.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, FiniteFloat

from unrack.workload.generate.batch.curve import normal_ranks, normal_scores
from unrack.workload.generate.distributions import Floats, Strict
from unrack.workload.job import Ints

SIZES = 6
"""Classes of sizes: 1, 2 to 4, 5 to 16, 17 to 64, 65 to 256, and more nodes."""

REQUEST_EDGES_S = (600.0, 3600.0, 14_400.0, 43_200.0)
"""Classes of requested times: up to 10 min, 1 h, 4 h, 12 h, and more."""

REQUESTS = len(REQUEST_EDGES_S) + 1
LEAST_SPREAD = 0.05
_HEAVY = 20
"""A class of so many jobs is halfway believed: its mean and spread are drawn to those of all jobs."""

_Score = Annotated[FiniteFloat, Field(ge=-6, le=6)]
_Spread = Annotated[FiniteFloat, Field(ge=LEAST_SPREAD, le=6)]
_Part = Annotated[FiniteFloat, Field(ge=0, le=1)]
_Row = Annotated[tuple[_Score, ...], Field(min_length=REQUESTS, max_length=REQUESTS)]
_Spreads = Annotated[tuple[_Spread, ...], Field(min_length=REQUESTS, max_length=REQUESTS)]
_Parts = Annotated[tuple[_Part, ...], Field(min_length=REQUESTS, max_length=REQUESTS)]


class Links(Strict):
    """Means and spreads of normal scores.

    Attributes
    ----------
    jobs
        Share of the jobs in each class of sizes (rows) and requested times (columns).
    request_mean, request_spread
        Of the request's score, by class of sizes.
    accuracy_mean, accuracy_spread
        Of the accuracy's score, by class of sizes and of requested times.
    """

    jobs: Annotated[tuple[_Parts, ...], Field(min_length=SIZES, max_length=SIZES)]
    request_mean: Annotated[tuple[_Score, ...], Field(min_length=SIZES, max_length=SIZES)]
    request_spread: Annotated[tuple[_Spread, ...], Field(min_length=SIZES, max_length=SIZES)]
    accuracy_mean: Annotated[tuple[_Row, ...], Field(min_length=SIZES, max_length=SIZES)]
    accuracy_spread: Annotated[tuple[_Spreads, ...], Field(min_length=SIZES, max_length=SIZES)]

    def request_rank(self, normal: Floats, size_class: Ints) -> Floats:
        """``float64[jobs]``: ranks of requested times, 0 to 1, from normal numbers."""
        weight = np.array(self.jobs).sum(axis=1)
        means, spreads = np.array(self.request_mean), np.array(self.request_spread)
        return _ranks(normal, size_class, weight, means, spreads)

    def accuracy_rank(self, normal: Floats, size_class: Ints, request_class: Ints) -> Floats:
        """``float64[jobs]``: ranks of accuracies, 0 to 1, from normal numbers."""
        cell = size_class * REQUESTS + request_class
        means, spreads = np.array(self.accuracy_mean).ravel(), np.array(self.accuracy_spread).ravel()
        return _ranks(normal, cell, np.array(self.jobs).ravel(), means, spreads)


def size_class(nodes: Ints | Floats) -> Ints:
    """``int64[jobs]``: 0 to 5, in powers of four.

    Examples
    --------
    >>> size_class(np.array([1, 2, 4, 5, 16, 256, 257])).tolist()
    [0, 1, 1, 2, 2, 4, 5]
    """
    return np.clip(np.ceil(np.log2(np.maximum(nodes, 1)) / 2 - 1e-9), 0, SIZES - 1).astype(np.int64)


def request_class(request_s: Floats) -> Ints:
    """``int64[jobs]``: 0 to 4, by :data:`REQUEST_EDGES_S`."""
    return np.searchsorted(REQUEST_EDGES_S, request_s, side="left").astype(np.int64)


def links_of(nodes: Ints, request_s: Floats, accuracy: Floats) -> Links:
    """The links of jobs.

    Parameters
    ----------
    nodes, request_s, accuracy : int64[jobs], float64[jobs], float64[jobs]
        Of the jobs.
    """
    by_size, cell = size_class(nodes), size_class(nodes) * REQUESTS + request_class(request_s)
    shape = (SIZES, REQUESTS)
    jobs = np.bincount(cell, minlength=SIZES * REQUESTS) / len(cell)
    request = _moments(normal_scores(request_s), by_size, SIZES)
    ended = _moments(normal_scores(accuracy), cell, SIZES * REQUESTS)
    return Links(
        jobs=_rounded(jobs.reshape(shape)),
        request_mean=tuple(request[0].round(4).tolist()),
        request_spread=tuple(request[1].round(4).tolist()),
        accuracy_mean=_rounded(ended[0].reshape(shape)),
        accuracy_spread=_rounded(ended[1].reshape(shape)),
    )


def _moments(scores: Floats, which: Ints, classes: int) -> tuple[Floats, Floats]:
    """Mean and spread of the scores in each class; of a class of few jobs, in part those of all jobs."""
    count = np.bincount(which, minlength=classes)
    trust = count / (count + _HEAVY)
    mean = np.bincount(which, scores, classes) / np.maximum(count, 1)
    square = np.bincount(which, (scores - mean[which]) ** 2, classes) / np.maximum(count, 1)
    spread = np.sqrt(trust * square + (1 - trust) * scores.var())
    return trust * mean + (1 - trust) * scores.mean(), np.maximum(spread, LEAST_SPREAD)


def _rounded(table: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in table.round(4).tolist())


def _ranks(normal: Floats, which: Ints, weight: Floats, means: Floats, spreads: Floats) -> Floats:
    return normal_ranks(means[which] + spreads[which] * normal, weight, means, spreads)
