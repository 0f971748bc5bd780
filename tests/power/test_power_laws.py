"""Laws over power: what nobody reaches changes no schedule; no table, no difference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from power_worlds import POLICIES, PowerWorld, random_power

from unrack.metric.kinds.jobs import POWER_METRICS
from unrack.resources.power.resource import PowerFile, PowerResource, SwitchOffFile
from unrack.resources.use import Kept

FAR = {"after": "900 d", "boot": 0, "shutdown": 0}


def without(world: PowerWorld, **keys: Any) -> dict[str, Any]:
    """The table ``power`` without cap and switching off, and with other keys."""
    return {**{key: value for key, value in world.power.items() if key not in ("cap", "switch_off")}, **keys}


def starts(world: PowerWorld, policy: str, power: dict[str, Any] | None) -> list[Any]:
    """When jobs started and ended."""
    if power is None:
        table = {key: value for key, value in world.table.items() if key != "power"}
        result = PowerWorld(table, world.jobs, world.faults).run(policy)
    else:
        result = world.run(policy, power=power)
    return result.jobs.select("job", "start_s", "end_s", "state").rows()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("policy", POLICIES)
def test_a_cap_that_nobody_reaches_and_nodes_that_are_never_switched_off_change_no_schedule(
    policy: str, seed: int
) -> None:
    world = random_power(seed)
    plain = starts(world, policy, None)
    assert starts(world, policy, without(world)) == plain
    assert starts(world, policy, without(world, cap="1 MW")) == plain
    assert starts(world, policy, without(world, switch_off=FAR)) == plain
    assert starts(world, policy, without(world, cap="1 MW", switch_off={**FAR, "keep_on": 5, "after": 0})) == plain


@pytest.mark.parametrize("seed", range(4))
def test_switching_off_saves_energy_of_nodes_without_jobs_and_costs_time(seed: int) -> None:
    world = random_power(seed)
    stay, switch = without(world), {"after": 20, "boot": 5, "shutdown": 1}
    kept = world.run("easy", power=stay).metrics
    saved = world.run("easy", power=stay | {"switch_off": switch}).metrics
    assert saved["energy_without_jobs_kwh"] < kept["energy_without_jobs_kwh"]
    assert saved["energy_kwh"] < kept["energy_kwh"]
    assert saved["response_s_mean"] >= kept["response_s_mean"]
    assert saved["nodes_switched_off"] > 0 == kept["nodes_switched_off"]


def test_every_key_and_metric_has_a_row_on_its_page() -> None:
    root = Path(__file__).parents[2] / "docs"
    rows = re.findall(r"^\| (`[^|]*) \|", (root / "power.md").read_text(), re.MULTILINE)
    keys = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert {*PowerFile.model_fields, *SwitchOffFile.model_fields} <= keys
    rows = re.findall(r"^\| (`[^|]*) \|", (root / "metrics.md").read_text(), re.MULTILINE)
    assert set(POWER_METRICS) <= set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_power_of_what_nobody_asks_for_is_told() -> None:
    world = random_power(3)
    told = world.run("easy", power=without(world, devices={"gpu.devices": 5, "gpus.count": 300})).notes
    assert told == ("no effect of the power of gpus.count of the cluster: no job asks for gpus.count",)


def test_the_report_has_energy_by_policy_and_power_over_time_with_the_cap() -> None:
    world = random_power(0)
    runs = [(policy, world.run(policy)) for policy in ("fcfs", "easy")]
    kept = [
        Kept(policy, 0, world.power, run.metrics, run.table("claims"), None, run.table, colour)
        for (policy, run), colour in zip(runs, ("#0072B2", "#D55E00"), strict=True)
    ]
    (told,) = PowerResource().section([one._replace(written={"cap": 1234.0}) for one in kept])
    energy = [run.metrics["energy_kwh"] for _, run in runs]
    assert [row[:2] for row in told.rows] == [("fcfs", f"{energy[0]:,.1f}"), ("easy", f"{energy[1]:,.1f}")]
    assert "cap: 1.23 kW on average" in told.picture
    assert re.findall(r'stroke="(#\w+)"', told.picture)[:2] == ["#0072B2", "#D55E00"]
    assert told.picture.count("<polyline") == 3
    assert ">kW</text>" in told.picture
    (open_ended,) = PowerResource().section([one._replace(written={}) for one in kept])
    assert "cap:" not in open_ended.picture
    assert PowerResource().section([one._replace(metrics={}) for one in kept]) == ()
