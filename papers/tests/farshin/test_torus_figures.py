"""Tori: every set of taken tiles beside brute force; the sums of the paper; what is printed and what is kept."""

from __future__ import annotations

import random
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unrack.cli import main as command_line
from unrack_papers.execution import execute
from unrack_papers.farshin.torus.placement import EXAMPLE, HOPS, SETS_IN_ALL, TAKEN, patterns
from unrack_papers.farshin.torus.scaling import LARGER, PAPER_S, taken_tiles
from unrack_papers.measured import Measured
from unrack_papers.pages.page import as_page, judged, long_rows
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.torus.solve import best_tiles, first_fit_tiles, tile_distance
from unrack_papers.verdict import Verdict


@cache
def measured(name: str) -> Measured:
    return execute(REPRODUCTIONS[name], REPRODUCTIONS[name].defaults)


def test_every_set_of_a_small_torus_has_the_sums_that_trying_all_tiles_gives() -> None:
    every = patterns(3, 4, 3)
    assert len(every.sets) == sum(1 for n in range(10) for _ in combinations(range(12), n))
    for index in random.Random(1).sample(range(len(every.sets)), 200):
        taken = [tile for tile in range(12) if every.sets[index] >> tile & 1]
        free = [tile for tile in range(12) if tile not in taken]
        assert every.taken[index] == len(taken)
        assert every.optimum[index] == min(tile_distance(3, 4, three) for three in combinations(free, 3))
        assert every.first_fit[index] == tile_distance(3, 4, free[:3])


@pytest.mark.long
def test_every_set_of_the_papers_torus_agrees_with_the_solvers() -> None:
    every = patterns(4, 5, 6)
    assert len(every.sets) == SETS_IN_ALL
    for index in random.Random(2).sample(range(len(every.sets)), 200):
        taken = [tile for tile in range(20) if every.sets[index] >> tile & 1]
        assert best_tiles(4, 5, 6, taken).distance == every.optimum[index]
        assert first_fit_tiles(4, 5, 6, taken).distance == every.first_fit[index]


def test_the_example_is_one_of_fewest_taken_tiles_with_the_papers_sums() -> None:
    assert patterns(4, 5, 6).example(29, 34) == list(TAKEN[EXAMPLE])
    assert patterns(4, 5, 6).example(24, 34) is None


def test_the_papers_sums_come_out_and_the_preoccupied_torus_is_not_compared() -> None:
    found = measured("torus-placement")
    page = as_page(found, judged(found))
    assert "| empty | First fit | 26.00 | 26.00 | 0.00 | agrees |" in page
    assert "|  | Optimum | 25.00 | 25.00 | 0.00 | agrees |" in page
    assert "| preoccupied, an example | First fit | 34.00 | 34.00 | – | not comparable |" in page
    assert [finding.verdict for _, finding in judged(found)] == [Verdict.AGREES] * 3
    total = found.at(("all sets of taken tiles", "any number", "Optimum"), "sets with the paper's sums")
    every = patterns(4, 5, 6)
    assert total is not None
    assert total.mean == ((every.optimum == 29) & (every.first_fit == 34)).sum() > 0


def test_the_drawn_tori_have_six_chosen_tiles_none_of_them_taken() -> None:
    drawn = REPRODUCTIONS["torus-placement"].draw(measured("torus-placement"))["vconcat"][0]
    lines = drawn["data"]["values"]
    for panel in drawn["facet"]["sort"]:
        states = {line["tile"]: line["state"] for line in lines if line["panel"] == panel}
        taken = [tile for tile, state in states.items() if state == "taken"]
        assert len(states) == 20
        assert taken == (list(TAKEN[EXAMPLE]) if "preoccupied" in panel else [])
        chosen = [tile for tile, state in states.items() if state == "chosen"]
        assert len(chosen) == 6
        assert panel.endswith(f": {tile_distance(4, 5, chosen)}")


def test_all_of_table_4_is_proven_and_its_seconds_are_beside_no_seconds_of_ours() -> None:
    found = measured("torus-scaling")
    times = {(row["group"], row["x"]): row for row in long_rows(found) if row["metric"] == "time" and row["paper"]}
    assert len(times) == 12
    assert times["7 x 7", 8]["paper"] == 39298.74
    assert all(row["ours"] is None for row in times.values())
    assert [finding.verdict for _, finding in judged(found)][:2] == [Verdict.AGREES] * 2
    for side, cores in PAPER_S.items():
        for k in cores:
            least = found.at((f"{side} x {side}", k, "Optimum"), HOPS.label)
            near = found.at((f"{side} x {side}", k, "Heuristic"), HOPS.label)
            assert least is not None
            assert near is not None
            assert least.mean <= near.mean


@pytest.mark.parametrize(("side", "k", "count"), LARGER)
def test_the_taken_tiles_of_the_larger_tori_are_always_the_same(side: int, k: int, count: int) -> None:
    tiles = taken_tiles(side, count)
    assert tiles == taken_tiles(side, count)
    assert len(set(tiles)) == count <= side * side - k


def test_the_seconds_of_a_run_are_printed_and_not_kept(tmp_path: Path) -> None:
    arguments = ["reproduce", "torus-scaling", "--jobs", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(command_line.app, arguments)
    assert done.exit_code == 0, done.output
    assert "8 of 7 x 7: 0.00" in done.stdout
    assert "times ours" in done.stdout
    page = (tmp_path / "torus-scaling.md").read_text()
    assert "times ours" not in page
    assert page == as_page(measured("torus-scaling"), judged(measured("torus-scaling")))
