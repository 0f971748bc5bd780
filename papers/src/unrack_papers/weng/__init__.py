"""Fragmentation of GPUs that pods share.

References
----------
Weng, Q., Yang, L., Yu, Y., Wang, W., Tang, X., Yang, G., Zhang, L. (2023). Beware of fragmentation: scheduling
GPU-sharing workloads with fragmentation gradient descent. USENIX ATC 2023.
"""

from unrack_papers.weng import fragmentation

REPRODUCTIONS = (fragmentation.REPRODUCTION,)
