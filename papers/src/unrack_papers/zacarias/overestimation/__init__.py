"""Requests above use: chapter 7 of Vieira Zacarias's thesis."""

from unrack_papers.zacarias.overestimation import everyone, single

REPRODUCTIONS = (everyone.THROUGHPUT, everyone.RESPONSES, single.REPRODUCTION)
