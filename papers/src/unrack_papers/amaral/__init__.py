"""Jobs that train neural networks on machines whose GPUs are not equally near to each other.

References
----------
Amaral, M. (2019). Improving resource efficiency in virtualized datacenters. Section 3.2 measures placements on one
machine, chapter 4 schedules there, chapter 5 with GPUs of other machines.
"""

from unrack_papers.amaral import flow, pairs, scenarios

REPRODUCTIONS = (
    pairs.REPRODUCTION,
    scenarios.SCENARIO_1,
    scenarios.SCENARIO_2,
    pairs.PACK_SPREAD,
    pairs.COLLOCATION,
    scenarios.REPRODUCTION,
    *flow.REPRODUCTIONS,
)
