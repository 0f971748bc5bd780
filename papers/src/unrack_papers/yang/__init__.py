"""Recommendation models that are served by CPU nodes and GPU nodes apart.

References
----------
Yang, L., et al. (2025). GPU-disaggregated serving for deep learning recommendation models at scale. USENIX NSDI 2025.
"""

from unrack_papers.yang import serving

REPRODUCTIONS = (serving.REPRODUCTION,)
