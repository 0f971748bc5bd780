"""Pools of NVMe and split GPUs.

References
----------
Call, A., Polo, J., Carrera, D. (2022). Workload-aware placement strategies to leverage disaggregated resources in the
data center. IEEE Systems Journal 16. Call, A. (2022). Leveraging disaggregated accelerators and non-volatile memories
to improve the efficiency of modern datacenters. Thesis: chapter 4 is the article, chapter 5 splits GPUs.
"""

from unrack_papers.call import figures, tables, vgpu

REPRODUCTIONS = (*tables.REPRODUCTIONS, *figures.REPRODUCTIONS, *vgpu.REPRODUCTIONS)
