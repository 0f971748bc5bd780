"""Disaggregated memory for batch systems.

References
----------
Vieira Zacarias, F. (2023). Job Scheduling for Disaggregated Memory in High Performance Computing Systems. Thesis.
"""

from unrack_papers.zacarias import (
    designs,
    dynamic,
    overestimation,
    overhead,
    prediction,
    published,
    response,
    throughput,
    utilisation,
)

REPRODUCTIONS = (
    throughput.REPRODUCTION,
    response.REPRODUCTION,
    utilisation.REPRODUCTION,
    *designs.REPRODUCTIONS,
    overhead.REPRODUCTION,
    prediction.REPRODUCTION,
    published.REPRODUCTION,
    *overestimation.REPRODUCTIONS,
    *dynamic.REPRODUCTIONS,
)
