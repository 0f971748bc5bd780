"""Servers on tiers of memory: the published ones give the known numbers; what is counted, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from pretend import without_batches
from typer.testing import CliRunner

from unrack.cli import main as command_line
from unrack.errors import InputError, TraceError
from unrack.metric.estimate import Estimate
from unrack.solver.servers import asked
from unrack_papers.execution import execute
from unrack_papers.farshin.counts import OUTCOMES, RESOURCES, of_prices, of_slos, of_uses, pools_of
from unrack_papers.farshin.servers import ALLOCATOR, BEST_FIT, FIRST_FIT, asked_by, beside, placed, supply_of
from unrack_papers.farshin.utilisation import NEEDED, OWN, each
from unrack_papers.measured import Compared, Measured
from unrack_papers.pages.page import as_csv, as_page, judged, stem
from unrack_papers.reproduction import Row, Task
from unrack_papers.servers.allocator.one_by_one import place_one_by_one
from unrack_papers.servers.problem import Allocation, regular_supply
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import Verdict

SLO = [name for name in REPRODUCTIONS if name.startswith("slo-")]
FEW = {"servers": [{"cores": 4, "mem": 8192, "local_SLA": 819, "remote_SLA": 9000 + 100 * i} for i in range(40)]}


@pytest.fixture
def published(data: Path) -> str:
    path = data / "slo" / "azure-1000-servers.json"
    if not path.is_file():
        pytest.skip(f"the published servers are not at {path}")
    return str(path)


@cache
def of_file(name: str, path: str) -> Measured:
    one = without_batches(REPRODUCTIONS[name])
    return execute(one, replace(one.defaults, servers=path))


def test_the_published_servers_give_the_known_numbers(published: str) -> None:
    task = Task({"servers": published}, 0, (ALLOCATOR, FIRST_FIT), None, ())
    own, first = placed(task)
    assert (own["clusters"], own["price"], own["unplaced"]) == (68, 872_027_625, 0)
    assert (own["missed.either"], own["all.same price"]) == (0, 1)
    assert (first["clusters"], first["price"], first["unplaced"]) == (50, 779_776_000, 0)
    assert (first["missed.local"], first["missed.remote"]) == (0.923, 0.706)
    assert [first[f"all.{name}"] for name in OUTCOMES] == [0.264, 0, 0.736]
    assert [first[f"met.{name}"] for name in OUTCOMES] == [0.077, 0, 0]


@pytest.mark.long
def test_with_the_published_servers_every_claim_is_judged_without_noise(published: str) -> None:
    verdicts = {name: [finding.verdict for _, finding in judged(of_file(name, published))] for name in SLO}
    holds, fails = Verdict.AGREES, Verdict.DIFFERS
    assert verdicts["slo-violations"] == [holds] * 2
    assert verdicts["slo-price"] == [holds] * 3
    assert verdicts["slo-utilisation"] == [holds, holds, fails, holds, holds]


def test_a_page_of_a_file_names_it_without_its_folder_and_has_one_seed(published: str) -> None:
    measured = of_file("slo-utilisation", published)
    page = as_page(measured, judged(measured))
    assert stem(measured) == "slo-utilisation-azure-1000-servers"
    assert "`unrack reproduce slo-utilisation --servers azure-1000-servers.json`" in page
    assert str(Path(published).parent) not in page
    assert "seed" not in page.partition("## Where")[0]
    assert "| Allocator | 68 | 68 | 0 | agrees |" in page
    assert published not in as_csv(measured)


def test_an_slo_is_missed_beyond_the_limit_and_not_at_it() -> None:
    supply = regular_supply(2, (4, 100), ((400, 1, 50, 1), (800, 2, 25, 1)), price=100)
    asks = asked(
        *(np.array(column) for column in ([1, 1, 1, 1], [100] * 4, [20, 20, 20, 20], [100, 100, 100, 100])), tiers=3
    )
    parts = [[20, 60, 20], [19, 61, 20], [20, 59, 21], [0, 0, 0]]
    found = of_slos(supply, asks, Allocation(np.array([0, 0, 1, -1]), np.array(parts)))
    assert found.local.tolist() == [False, True, False, False]
    assert found.remote.tolist() == [False, True, True, False]
    assert found.numbers() == {
        "missed.local": 0.25, "missed.remote": 0.5, "missed.either": 0.5, "missed.both": 0.25
    }  # fmt: skip


@pytest.mark.parametrize(("shared", "rule"), [(1, "slo"), (2, "slo"), (3, "first-fit"), (2, "best-fit")])
def test_uses_and_prices_are_those_added_up_server_by_server(shared: int, rule: str) -> None:
    supply = supply_of({"shared": shared})
    asks = asked_by(None, 3)
    asks = replace(asks, **{name: getattr(asks, name)[:90] for name in ("cores", "mb", "floor", "ceiling")},
                   group=asks.group[:90], level=asks.level[:90], pinned=asks.pinned[:90],
                   forbidden=asks.forbidden[:90])  # fmt: skip
    found = place_one_by_one(supply, asks, rule)
    base = place_one_by_one(supply, asks, "slo")
    used: dict[int, int] = {}
    price = 0
    for server in range(90):
        for pool, mb in zip(supply.pools(int(found.cluster[server])).tolist(), found.mb[server].tolist(), strict=True):
            used[pool] = used.get(pool, 0) + mb
            price += mb * int(supply.price[pool])
    values = of_uses(supply, asks, found, base)
    clusters = sorted(set(found.cluster.tolist()))
    assert values["clusters"] == len(clusters)
    assert values["distant_pools"] == len({int(supply.pools(c)[2]) for c in clusters})
    for tier, name in enumerate(RESOURCES[2:]):
        own = {int(supply.pools(c)[tier]) for c in clusters}
        assert values[name] == pytest.approx(sum(used.get(p, 0) for p in own) / sum(int(supply.mb[p]) for p in own))
    assert values["cores"] == pytest.approx(asks.cores.sum() / (112 * len(clusters)))
    ranks = [values[f"of.memory.{rank}"] for rank in range(len(clusters))]
    assert ranks == sorted(ranks, reverse=True)  # type: ignore[type-var]
    assert of_prices(supply, found, base, np.ones(90, np.bool_))["price"] == price
    assert (pools_of(supply, found)[:, 0] == found.cluster).all()


def test_a_cluster_that_is_not_in_use_counts_as_empty_in_the_curves(published: str) -> None:
    measured = of_file("slo-utilisation", published)
    for name in RESOURCES:
        last = [measured.at((each(name), 68, row.name), "in use") for row in (ALLOCATOR, FIRST_FIT)]
        assert last[0] is not None
        assert last[0].mean > 0
        assert last[1] is not None
        assert last[1].mean == 0
        assert (each(name), 69, FIRST_FIT.name) not in measured.values


def test_one_page_more_run_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "few.json"
    path.write_text(json.dumps(FEW))
    one = REPRODUCTIONS["slo-utilisation"]  # with the whole batch
    twice = [execute(one, replace(one.defaults, servers=str(path))) for _ in range(2)]
    assert as_csv(twice[0]) == as_csv(twice[1])
    assert as_page(twice[0], judged(twice[0])) == as_page(twice[1], judged(twice[1]))
    fewest = [twice[0].at((NEEDED, OWN, name), "clusters") for name in ("All at once", "Allocator")]
    assert fewest[0] is not None
    assert fewest[1] is not None
    assert 0 < fewest[0].mean <= fewest[1].mean


def test_the_command_takes_a_file_and_prints_the_time_that_no_file_has(tmp_path: Path) -> None:
    path = tmp_path / "few.json"
    path.write_text(json.dumps(FEW))
    arguments = ["reproduce", "slo-utilisation", "--servers", str(path), "--jobs", "1", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(command_line.app, arguments)
    assert done.exit_code == 0, done.output
    assert "warning" not in done.output
    assert "the paper 12.5804 s" in done.output
    written = tmp_path / "out" / "slo-utilisation-few.md"
    assert "12.5804" not in written.read_text()
    assert max(len(line.rstrip()) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 120


def test_seeds_are_refused_beside_a_file_and_files_that_are_not_of_such_servers(tmp_path: Path) -> None:
    one = REPRODUCTIONS["slo-price"]
    with pytest.raises(InputError, match="nothing is drawn from a file"):
        execute(one, replace(one.defaults, servers="any.json", seeds=4))
    for words, entry in {
        "without SLOs": {"cores": 1, "mem": 10},
        "groups or forbidden": {"cores": 1, "mem": 10, "local_SLA": 1, "remote_SLA": 9, "group": "a", "spread": "rack"},
    }.items():
        (tmp_path / "other.json").write_text(json.dumps({"servers": [entry]}))
        with pytest.raises(InputError, match=words):
            asked_by(str(tmp_path / "other.json"), 0)
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(TraceError):
        asked_by(str(tmp_path / "other.json"), 0)


@pytest.mark.parametrize(
    ("paper", "ours", "exact", "verdict"),
    [
        (68.0, Estimate(68.0, 0.0, 1), True, "agrees"),
        (68.0, Estimate(66.0, 0.0, 1), True, "differs"),
        (68.0, Estimate(68.0, 0.0, 1), False, "cannot be judged"),
        (68.0, Estimate(67.0, 0.5, 9), False, "agrees"),
        (68.0, Estimate(67.0, 2.0, 9), False, "cannot be judged"),
        (68.0, Estimate(60.0, 2.0, 9), False, "differs"),
        (None, Estimate(67.0, 0.0, 1), False, "–"),
    ],
)
def test_the_verdict_beside_a_value_of_the_paper(
    paper: float | None, ours: Estimate, exact: bool, verdict: str
) -> None:
    quantity = REPRODUCTIONS["slo-utilisation"].quantities[0]
    cells = beside(Compared((NEEDED, OWN, "Allocator"), quantity, paper, ours, ours.mean, ours.mean, exact))
    assert cells[-1].lines == (verdict,)


def test_drawn_servers_differ_by_seed_and_meet_their_slos_under_every_rule_but_first_fit() -> None:
    rows = (ALLOCATOR, FIRST_FIT, BEST_FIT, Row("again", "slo", "basic"))
    one, two = (placed(Task({}, seed, rows, None, ())) for seed in (0, 1))
    assert one[0]["price"] == one[3]["price"] != two[0]["price"]
    for numbers in (one, two):
        assert [row["missed.either"] == 0 for row in numbers] == [True, False, True, True]
        assert [row["unplaced"] for row in numbers] == [0, 0, 0, 0]
