"""What jobs in Slurm ask for that Slurm does not know, said in their comments: ``docs/slurm-asks.md``."""

from unrack.live.slurm.asks.asks import Askable, AskError, Asks, asks_of, asks_of_job

__all__ = ["AskError", "Askable", "Asks", "asks_of", "asks_of_job"]
