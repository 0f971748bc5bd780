"""Servers with SLOs on tiers of memory, and cores near each other on a torus.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation. Section 5 places servers, section 6 cores.
"""

from unrack_papers.farshin import price, torus, utilisation, violations

REPRODUCTIONS = (violations.REPRODUCTION, price.REPRODUCTION, utilisation.REPRODUCTION, *torus.REPRODUCTIONS)
