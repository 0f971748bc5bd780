"""Memory that follows use: chapter 8 of Vieira Zacarias's thesis."""

from unrack_papers.zacarias.dynamic import (
    cost,
    initial,
    memory,
    overestimation,
    response,
    sharing,
    throughput,
    users,
    utilisation,
)

REPRODUCTIONS = (
    throughput.REPRODUCTION,
    response.REPRODUCTION,
    cost.REPRODUCTION,
    memory.REPRODUCTION,
    utilisation.REPRODUCTION,
    users.REPRODUCTION,
    overestimation.REPRODUCTION,
    initial.REPRODUCTION,
    sharing.REPRODUCTION,
)
