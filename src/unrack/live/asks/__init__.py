"""What jobs ask for that their orchestrator does not know, in one language: ``docs/slurm-asks.md``."""

from unrack.live.asks.asks import Askable, AskError, Asks, asks_of

__all__ = ["AskError", "Askable", "Asks", "asks_of"]
