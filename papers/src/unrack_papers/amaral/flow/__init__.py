"""Jobs on one GPU each, of their own machine or of another one, placed by flows (Amaral 2019, chapter 5)."""

from unrack_papers.amaral.flow import makespan, network, solvers, utilisation

REPRODUCTIONS = (makespan.REPRODUCTION, network.REPRODUCTION, utilisation.REPRODUCTION, solvers.REPRODUCTION)
