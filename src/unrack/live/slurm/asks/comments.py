"""What one job of Slurm asks for in its comments."""

from __future__ import annotations

from unrack.live.asks.asks import Askable, Asks
from unrack.live.slurm.reading import SlurmJob


def asks_of_job(job: SlurmJob, askable: Askable, user_priority_most: int = 0) -> Asks:
    """What a job asks for in its comment, and in its admin comment, which wins where both say something.

    Parameters
    ----------
    askable
        Made once for a cluster: ``Askable.of(cluster)``.
    user_priority_most
        The highest priority that its user may ask for; administrators may ask for any.

    Raises
    ------
    AskError
        As for :func:`unrack.live.asks.asks.asks_of`.
    """
    by_user = askable.asks(job.comment, "comment", user_priority_most)
    return askable.asks(job.admin_comment, "admin comment").over(by_user)
