"""When claims are looked at while seeds are added, and what each look may spend of the chance of a false verdict."""

from __future__ import annotations

from typing import NamedTuple

from unrack_papers.verdict import CHANCE


class Looks(NamedTuple):
    """When claims are looked at: after twice as many seeds from time to time.

    Attributes
    ----------
    first
        After how many seeds the first time.
    most
        Seeds that may be spent.
    """

    first: int
    most: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """After how many seeds each time; what the budget has beyond the last is not spent.

        Examples
        --------
        >>> Looks(3, 25).seeds
        (3, 6, 12, 24)
        """
        return tuple(self.first << i for i in range((self.most // self.first).bit_length()))


def chance_of(look: int) -> float:
    """The chance of a false verdict that is spent at a look, of which the first is 1; over all looks it is 5 %.

    Examples
    --------
    >>> [round(chance_of(look), 4) for look in (1, 2, 3)]
    [0.025, 0.0083, 0.0042]
    """
    return CHANCE / (look * (look + 1))
