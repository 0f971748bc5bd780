"""The timelines of the papers' figures come out as drawn; numbers that they leave open are in the scenarios."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from device_worlds import D, S, World, play
from ledger import audit
from small_worlds import nodes_held

from unrack.cluster.spec import Cluster

FOLDER = Path(__file__).parent / "scenarios"
DRAWN = ("4.1a", "4.1b", "5.1a", "5.1b", "5.1c", "5.2a", "5.2b")


def test_there_is_a_scenario_for_every_drawing_and_no_other() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == [f"fig-{name}" for name in DRAWN]


@pytest.mark.parametrize("name", DRAWN)
def test_the_figure_comes_out_as_drawn(name: str) -> None:
    scenario = tomllib.loads((FOLDER / f"fig-{name}.toml").read_text(encoding="utf-8"))
    keys = ("submit", "run", "cores", "nvme", "gpu")
    jobs = tuple(D(**{key: job[key] for key in keys if key in job}) for job in scenario["jobs"])
    world = World(Cluster.from_dict(scenario["cluster"]), jobs)
    log = play(world, scenario["policy"]).log
    audit(log, world)
    found = {}
    for attempt, job in enumerate(log.attempt_job.tolist()):
        parts = [share.parts for share, at in zip(log.shares, log.share_attempt, strict=True) if at == attempt]
        one = scenario["jobs"][job]
        (node,) = nodes_held(log, attempt)
        found[one["name"]] = (int(log.attempt_start_us[attempt]) / S, node, *[p for p in parts if "parts" in one])
    assert found == {
        job["name"]: (job["starts"], job["node"], *([job["parts"]] if "parts" in job else []))
        for job in scenario["jobs"]
    }
