"""Which cores of a node a job gets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError, RefusedError
from unrack.sim.frames.held import ranges
from unrack_papers.torus.core_tiles import CORE_RULES, CoreTiles


def node(rows: int, columns: int, dies: int) -> Cluster:
    kind = {"count": 1, "cores": rows * columns * dies, "torus": [rows, columns]}
    return Cluster.from_dict({"nodes": [kind]})


def hops(rows: int, columns: int, one: int, other: int) -> int:
    """Hops between two cores of a die, one at a time around the ring."""
    down, across = abs(one // columns - other // columns), abs(one % columns - other % columns)
    return min(down, rows - down) + min(across, columns - across)


def plain_measure(rows: int, columns: int, ids: list[int]) -> tuple[int, int]:
    """Hops over all pairs on one die, and pairs on different dies."""
    size = rows * columns
    pairs = list(combinations(ids, 2))
    near = [(a % size, b % size) for a, b in pairs if a // size == b // size]
    return sum(hops(rows, columns, a, b) for a, b in near), len(pairs) - len(near)


@draws(60)
@given(
    rule=st.sampled_from(CORE_RULES), rows=st.integers(1, 4), columns=st.integers(1, 4), dies=st.integers(1, 3),
    asks=st.lists(st.integers(1, 12), max_size=12), gone=st.sets(st.integers(0, 11)),
)  # fmt: skip
def test_cores_are_free_ones_measured_as_counted_pair_by_pair(
    rule: str, rows: int, columns: int, dies: int, asks: list[int], gone: set[int]
) -> None:
    tiles = CoreTiles(node(rows, columns, dies), rule)
    held: dict[int, list[int]] = {}
    for number, cores in enumerate(asks):
        busy = {core for ids in held.values() for core in ids}
        free = rows * columns * dies - len(busy)
        if cores > free:
            with pytest.raises(RefusedError, match=f"{free} are free"):
                tiles.take(0, cores)
            continue
        got = tiles.take(0, cores)
        ids = got.ids.tolist()
        assert len(set(ids)) == cores
        assert ids == sorted(ids)
        assert not set(ids) & busy
        assert max(ids) < rows * columns * dies
        assert (got.distance, got.apart) == plain_measure(rows, columns, ids)
        assert got.dies == len({core // (rows * columns) for core in ids})
        assert got.least <= got.distance
        held[number] = ids
        if number in gone:
            tiles.give(0, np.array(held.pop(number)))
    assert int(tiles.taken(0).sum()) == sum(map(len, held.values()))


@draws(60)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.sets(st.integers(0, 35)), st.integers(1, 6))
def test_best_is_the_least_distance_of_all_sets_on_one_die_that_has_room(
    rows: int, columns: int, dies: int, busy: set[int], cores: int
) -> None:
    size = rows * columns
    tiles = CoreTiles(node(rows, columns, dies), "best")
    busy = {core for core in busy if core < size * dies}
    if busy:
        tiles.hold(0, sorted(busy))
    free = [[core for core in range(die * size, (die + 1) * size) if core not in busy] for die in range(dies)]
    fits = [die for die in free if len(die) >= cores]
    if not fits:
        return
    got = tiles.take(0, cores)
    least = min(plain_measure(rows, columns, list(ids))[0] for die in fits for ids in combinations(die, cores))
    assert (got.distance, got.dies, got.apart) == (least, 1, 0)
    equal = [
        die for die in fits if min(plain_measure(rows, columns, list(i))[0] for i in combinations(die, cores)) == least
    ]
    assert int(got.ids[0]) // size == min(equal, key=lambda die: (len(die), die[0]))[0] // size


def test_more_cores_than_a_die_has_free_take_the_fewest_dies() -> None:
    tiles = CoreTiles(node(2, 3, 3), "best")
    tiles.hold(0, [0, 6, 7])  # 5, 4 and 6 free
    got = tiles.take(0, 8)
    assert got.dies == 2
    assert set(range(12, 18)) <= set(got.ids.tolist())  # the emptiest die as a whole
    assert got.apart == 12
    assert tiles.take(0, 7).dies == 2


def test_first_fit_takes_the_cores_of_least_ids_whatever_die_they_are_on() -> None:
    tiles = CoreTiles(node(2, 3, 2), "first-fit")
    tiles.hold(0, [1, 2, 3])
    got = tiles.take(0, 4)
    assert got.ids.tolist() == [0, 4, 5, 6]
    assert (got.dies, got.apart) == (2, 3)


def test_six_cores_of_an_empty_die_are_as_close_as_the_paper_says() -> None:
    best, first = (CoreTiles(node(4, 5, 1), rule).take(0, 6) for rule in ("best", "first-fit"))
    assert (best.distance, best.least, first.distance) == (25, 25, 26)


def test_what_is_impossible_is_refused_and_changes_nothing() -> None:
    tiles = CoreTiles(node(2, 2, 1))
    tiles.hold(0, [0])
    for ids, words in (
        ([0, 1], "core 0 of node 0: it is in use"),
        ([1, 1], "core 1"),
        ([4], "cores 0 to 3"),
        ([-1], "core -1"),
    ):
        with pytest.raises(RefusedError, match=words):
            tiles.hold(0, ids)
    with pytest.raises(RefusedError, match="core 2 of node 0 given back"):
        tiles.give(0, np.array([0, 2]))
    with pytest.raises(RefusedError, match="0 cores"):
        tiles.take(0, 0)
    assert tiles.taken(0).tolist() == [[True, False, False, False]]
    with pytest.raises(InputError, match="best, quick, first-fit"):
        CoreTiles(node(2, 2, 1), "closest")
    with pytest.raises(InputError, match=r"how the cores of .* are laid out is not known"):
        CoreTiles(Cluster.homogeneous(nodes=1, cores=4))


@pytest.mark.parametrize(
    ("torus", "words"),
    [
        ([4, 7], r"nodes.0.torus: got \[4, 7\], wanted 28 cores on a die to divide the 112?0? ?"),
        ([0, 2], "1 to 32 each"), ([33, 1], "1 to 32 each"), ([2], "rows, columns"), (4, "rows, columns"),
        ([True, 2], "1 to 32"), ([2.0, 2], "1 to 32"), ("4x7", "rows, columns"),
    ],
)  # fmt: skip
def test_a_layout_that_cannot_be_is_refused_with_its_key(torus: object, words: str) -> None:
    with pytest.raises(ClusterError, match=words) as error:
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 110, "torus": torus}]})
    assert "torus" in str(error.value)


@given(st.sets(st.integers(0, 60)))
def test_ranges_say_every_number_once(ids: set[int]) -> None:
    back: list[int] = []
    for part in filter(None, ranges(sorted(ids)).split(",")):
        first, _, last = part.partition("-")
        back += range(int(first), int(last or first) + 1)
    assert back == sorted(ids)
