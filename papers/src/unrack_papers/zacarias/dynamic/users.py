"""Provisioning: what one careless user loses, under static and dynamic (Fig. 8.8, section 8.4.6)."""

from __future__ import annotations

from unrack_papers.claim import Claim, lies
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Sheet
from unrack_papers.reproduction import Point
from unrack_papers.zacarias.dynamic.systems import DYNAMIC, NOTES, STATIC, mix, provisioned, row
from unrack_papers.zacarias.overestimation.charts import both
from unrack_papers.zacarias.overestimation.everyone import METHOD
from unrack_papers.zacarias.overestimation.users import (
    ALL,
    ALONE,
    EVERYONE,
    QUANTITIES,
    regressions,
    users_sheets,
    with_bands,
)
from unrack_papers.zacarias.response import FoundNumber, Headline, claims_of, headlines_sheet

LARGE, MEMORY = 50, 50
GROUP = f"{LARGE} % large jobs, {MEMORY} % memory"


def longer(measured: Measured, name: str) -> FoundNumber:
    """How much longer the mean response is if all overestimate, %."""
    return FoundNumber(GROUP, measured.each((GROUP, ALL, name), EVERYONE.label))


HEADLINES = (
    Headline(
        "response if all overestimate over that if nobody does, Static",
        "Under static the response doubles if all overestimate, by up to 100 % (50 to 150 % longer)",
        "§8.4.6, Fig. 8.8",
        100,
        lambda measured: longer(measured, STATIC),
        50,
        150,
    ),
    Headline(
        "response if all overestimate over that if nobody does, Dynamic",
        "Under dynamic it is at most 10 % longer",
        "§8.4.6, Fig. 8.8",
        10,
        lambda measured: longer(measured, DYNAMIC),
        high=10,
        sign="≤",
    ),
)


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    return headlines_sheet(measured, HEADLINES), *users_sheets(measured)


REPRODUCTION = provisioned(
    name="dynamic-users",
    shows="Figure 8.8",
    summary="response of diligent and careless users, static and dynamic",
    setup="Half of the node-hours by large jobs, on half of the memory (64 GB a node). The same jobs run with exact "
    "requests, and with requests that are too high by shares drawn evenly from 0 to 100 %, each job's by itself. In "
    "bands of jobs that responded alike at first, a straight line through the responses tells that of a diligent user "
    "(+0 %) from that of a careless one (+100 %). Each policy's responses are compared with its own for exact ones.",
    points=(Point(GROUP, ALL, mix(LARGE), (row(STATIC, MEMORY), row(DYNAMIC, MEMORY))),),
    quantities=QUANTITIES,
    claims=(
        *claims_of(HEADLINES),
        Claim(
            "Under static diligent and careless users suffer alike: their responses differ by at most 10 %",
            "§8.4.6, Fig. 8.8",
            lies(ALONE[100].label, STATIC, [GROUP], [ALL], -10, 10),
        ),
        Claim(
            "Under dynamic being careless changes the response by at most 10 %",
            "§8.4.6, Fig. 8.8",
            lies(ALONE[100].label, DYNAMIC, [GROUP], [ALL], -10, 10),
        ),
    ),
    draw=both(),
    x_title="interval of responses",
    group_title="scenario",
    solve=regressions,
    notes=(
        "Which mix and system the thesis shows is in its picture only; ours are those of the scenario of Fig. 7.1, in "
        "the sizes of chapter 8. `The increase in response time doubles` is read as a response that is twice as long.",
        METHOD,
        *NOTES,
    ),
    derive=with_bands,
    tables=_tables,
)
