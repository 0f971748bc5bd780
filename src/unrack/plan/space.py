"""The systems that a search may try: a grid over the varied keys, in order of what is to be least."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, eq=False)
class Space:
    """A grid of systems, numbered from 0 in ascending order of what is to be least.

    Attributes
    ----------
    places
        Of each system: the index of its value along every key.
    least
        Of each system: what is to be least, such as its cost.
    """

    places: tuple[tuple[int, ...], ...]
    least: tuple[float, ...]

    @classmethod
    def over(cls, sizes: Sequence[int], least: Callable[[tuple[int, ...]], float]) -> Space:
        """All combinations of so many values along each key; equals in the order of their values.

        Examples
        --------
        >>> Space.over([2, 2], lambda place: 10 * place[0] - place[1]).places
        ((0, 1), (0, 0), (1, 1), (1, 0))
        """
        places = list(itertools.product(*(range(size) for size in sizes)))
        amounts = {place: least(place) for place in places}
        ordered = sorted(places, key=lambda place: (amounts[place], place))
        return cls(tuple(ordered), tuple(amounts[place] for place in ordered))

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def _number(self) -> dict[tuple[int, ...], int]:
        return {place: number for number, place in enumerate(self.places)}

    def neighbours(self, system: int, steps: int) -> list[int]:
        """The systems that differ by up to so many steps along one key, in order of their numbers."""
        place = self.places[system]
        moved = (
            (*place[:key], place[key] + by, *place[key + 1 :])
            for key in range(len(place))
            for by in range(-steps, steps + 1)
            if by
        )
        return sorted(self._number[one] for one in moved if one in self._number)

    def chains(self) -> list[list[int]]:
        """All systems in chains along the key with the most values, each in ascending order, the cheapest chain first.

        Examples
        --------
        >>> Space.over([2, 3], lambda place: 10 * place[0] + place[1]).chains()
        [[0, 1, 2], [3, 4, 5]]
        """
        if not self.places:
            return []
        sizes = [len({place[key] for place in self.places}) for key in range(len(self.places[0]))]
        along = max(range(len(sizes)), key=lambda key: sizes[key])
        found: dict[tuple[int, ...], list[int]] = {}
        for number, place in enumerate(self.places):
            found.setdefault((*place[:along], *place[along + 1 :]), []).append(number)
        return sorted(found.values())
