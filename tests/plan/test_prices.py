"""Prices of clusters, and their bills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unrack import Cluster
from unrack.cli.main import app
from unrack.cluster.presets import PRESETS
from unrack.cluster.prices.bill import bill_of
from unrack.cluster.prices.prices import EXAMPLE, HOURS_A_YEAR, PRICES, make_prices
from unrack.errors import ClusterError, InputError
from unrack.plan.settings import read_prices

POOLED = {
    "nodes": [{"name": "small", "count": 3, "cores": 8, "memory": "64 GB", "gpus": 2},
              {"name": "large", "count": 1, "cores": 16, "memory": "256 GB"}],
    "memory_pools": [{"count": 2, "memory": "512 GB"}],
    "pools": [{"kind": "nvme", "count": 5, "per": "rack"}],
    "nodes_per_rack": 2,
    "counted": [{"name": "solver", "amount": 7}],
}  # fmt: skip


def amounts(cluster: Cluster, **prices: object) -> dict[str, float]:
    return {item.what: item.amount for item in bill_of(cluster, make_prices(prices)).items}


def test_everything_that_has_a_price_is_counted_once() -> None:
    cluster = Cluster.from_dict(POOLED)
    found = amounts(
        cluster, node=1, core=1, memory_gb=1, memory_pool=1, memory_pool_gb=1, devices={"nvme": 1, "gpu": 1},
        counted={"solver": 1}, rack=1, site=1,
    )  # fmt: skip
    racks = len(cluster.rack_names)
    assert found == {
        "nodes": 4, "memory pools": 2, "cores": 40, "GB of memory": 448.0, "GB in memory pools": 1024.0,
        "nvme": 10, "gpu": 6, "solver": 7, "racks": racks, "site": 1,
    }  # fmt: skip


def test_a_price_of_a_class_takes_the_place_of_that_of_nodes() -> None:
    found = amounts(Cluster.from_dict(POOLED), node=1, classes={"large": 2})
    assert found == {"nodes": 3, "nodes of large": 1}


def test_memory_of_a_tier_has_the_price_of_its_tier_wherever_it_is() -> None:
    found = amounts(Cluster.preset("slo-basic"), memory_gb=1, tiers={"distant-remote": 1})
    assert found == {"GB of memory": 3200.0, "GB in memory pools": 12800.0, "GB of distant-remote": 25600.0}


def test_gpus_of_machines_are_gpus() -> None:
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 8}], "gpus": [{"machine": "minsky"}]})
    assert amounts(cluster, devices={"gpu": 1}) == {"gpu": 8}


def test_keeping_and_powering_count_over_the_years() -> None:
    prices = make_prices({"years": 2, "kwh": 0.5, "pue": 1.2, "node": {"capex": 10, "per_hour": 0.25, "watts": 1000}})
    bill = bill_of(Cluster.homogeneous(3, 1), prices)
    assert bill.total == pytest.approx(3 * (10 + 2 * HOURS_A_YEAR * (0.25 + 1.2 * 0.5)))
    assert (bill.capex, bill.watts) == (30, 3000)
    assert bill.per_hour == pytest.approx(3 * 0.85)


def test_the_prices_of_the_thesis_give_its_costs() -> None:
    cluster = Cluster.preset("grizzly-1490").priced("zacarias-2023")
    assert cluster.prices is not None
    assert bill_of(cluster, cluster.prices).total == 1490 * (10_154 + 1_280)


def test_prices_change_no_digest() -> None:
    plain = Cluster.from_dict(POOLED)
    assert plain.priced({"node": 5}).digest() == plain.digest()


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_bill_by_the_examples(name: str) -> None:
    bill = bill_of(Cluster.preset(name), make_prices(EXAMPLE))
    assert bill.total > 0
    assert json.loads(json.dumps(bill.record()))["total"] == bill.total


WRONG = [
    ({"preset": "cheap"}, "preset", "zacarias-2023"),
    ({"nodes": 5}, "nodes", "unknown key"),
    ({"node": -1}, "node", "-1"),
    ({"node": "much"}, "node", "price to buy it"),
    ({"node": {"capax": 1}}, "capax", "unknown key"),
    ({"years": 0}, "years", "0"),
    ({"pue": 0.5}, "pue", "0.5"),
    ({"devices": {"fpga": 1}}, "devices.fpga", "nvme"),
    ({"classes": {"huge": 1}}, "classes.huge", "small, large"),
    ({"tiers": {"far": 1}}, "tiers.far", "no tiers"),
]


@pytest.mark.parametrize(("prices", "where", "word"), WRONG, ids=str)
def test_wrong_prices_are_refused_where_they_stand(prices: dict[str, object], where: str, word: str) -> None:
    with pytest.raises(ClusterError) as error:
        Cluster.from_dict({**POOLED, "prices": prices}, "machine.toml")
    assert "machine.toml, prices" in str(error.value)
    assert where in str(error.value)
    assert word in str(error.value)


def test_prices_of_the_command_line_are_refused_by_the_name_of_the_option(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text("prices = {pue = 0.5}\n")
    for said, words in (("foo", "--prices: got 'foo'"), (str(tmp_path / "odd.toml"), "--prices, pue: got 0.5")):
        with pytest.raises(InputError) as error:
            read_prices(said)
        assert words in str(error.value)


def test_the_command_prints_a_bill_and_lists_prices(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("currency = 'EUR'\nnode = 1000\n[devices]\nnvme = 100\n")
    done = CliRunner().invoke(app, ["cluster", "bill", "nvme-pool", "--prices", str(tmp_path / "prices.toml")])
    assert done.exit_code == 0, done.output
    assert "6,000" in done.output
    assert "EUR" in done.output
    assert "not counted" in done.output
    as_json = CliRunner().invoke(app, ["cluster", "bill", "nvme-pool", "--json"])
    assert json.loads(as_json.output)["preset"] == EXAMPLE
    listed = CliRunner().invoke(app, ["prices"]).output
    assert all(name in listed for name in PRICES)


def test_a_run_of_a_cluster_with_prices_tells_its_cost(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        "policies = ['easy']\n[[clusters]]\nnodes = [{count = 2, cores = 4}]\nprices = {node = 500}\n[[workloads]]\n"
        "generate = {jobs = 10, arrivals = {gap_s = 60}, classes = [{run_s = 60}]}\n"
    )
    command = ["run", str(tmp_path / "study.toml"), "-j", "1", "--out", str(tmp_path / "out"), "--json", "--no-report"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    row = json.loads(done.output)["runs"][0]
    assert row["cost"] == 1000
    assert row["jobs_h_per_million"] == pytest.approx(row["throughput_jobs_per_h"] * 1000)
