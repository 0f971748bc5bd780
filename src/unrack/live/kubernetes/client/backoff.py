"""How long to wait before something is tried again."""

from __future__ import annotations

from random import Random


class Backoff:
    """Waits that double, each cut at random by up to a half, so that many do not come back at the same moment.

    Parameters
    ----------
    seed
        Of what is random.
    first_s, most_s
        The first wait and the longest, before they are cut.

    Examples
    --------
    >>> backoff = Backoff(seed=1, first_s=1.0, most_s=4.0)
    >>> [0.5 * whole <= backoff.next_s() <= whole for whole in (1, 2, 4, 4)]
    [True, True, True, True]
    """

    def __init__(self, seed: int = 0, first_s: float = 0.2, most_s: float = 15.0) -> None:
        self._random, self._first_s, self._most_s = Random(seed), first_s, most_s
        self._whole_s = first_s

    def next_s(self, least_s: float = 0.0) -> float:
        """The next wait, s; at least as long as the server asks for, or up to a half longer."""
        whole_s, self._whole_s = self._whole_s, min(self._whole_s * 2, self._most_s)
        share = self._random.uniform(0.5, 1.0)
        return max(whole_s * share, least_s * (0.5 + share))

    def reset(self) -> None:
        """Begin with the first again: it went well."""
        self._whole_s = self._first_s
