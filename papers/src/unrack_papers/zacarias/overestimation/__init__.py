"""Requests above use: chapter 7 of Vieira Zacarias's thesis."""

from unrack_papers.zacarias.overestimation import everyone

REPRODUCTIONS = (everyone.THROUGHPUT, everyone.RESPONSES, everyone.REPRODUCTION)
