"""What jobs claim of links: by hand, under every kind of policy, and never more than there is."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linked_worlds import claimed, jobs_of, linked, run
from tries import draws, some

from unrack.core import Core
from unrack.errors import RefusedError
from unrack.events import Round, Submitted
from unrack.ledger.lease import Lease, Share
from unrack.policy.contract import Start
from unrack.policy.table import parse_policy
from unrack.resources.contract import Gangs, Nodes
from unrack.resources.links.resource import Links, read_keys
from unrack.sim.explained.job import explain
from unrack.workload.job import JobTable

POLICIES = (
    "fcfs", "easy", "conservative", "list(backfill=any)", "easy(place=worst-fit, nodes=whole)", "first-fit",
    "easy(memory=disaggregated)", "disaggregation-aware", "random-fit",
)  # fmt: skip
NODES = Nodes(np.full(4, 20), np.full(4, 64), np.array([0, 0, 1, 1]), ("rack0", "rack1"))
LINKS = Links(read_keys({"mb_s": 1000, "racks": {"mb_s": 1500}}, "here"), NODES, "here")
NONE = np.zeros(0, np.int64)


def by_name(claims: Any) -> dict[str, int]:
    return {LINKS.places[place].name: amount for place, amount in claims.tolist()}


def rows(*devices: tuple[int, int, int]) -> Any:
    return np.array(devices, np.int64).reshape(-1, 3)


@pytest.mark.parametrize(
    ("devices", "wanted"),
    [
        ([(0, 0, 3)], {}),
        ([(0, 1, 1)], {"link of node 0": 100, "link of node 1": 100}),
        ([(0, 2, 1)], {"link of node 0": 100, "link of node 2": 100, "uplink of rack0": 100, "uplink of rack1": 100}),
        ([(0, 0, 2), (0, 1, 2)], {"link of node 0": 200, "link of node 1": 200}),
        ([(0, 1, 1), (1, 0, 1)], {"link of node 0": 200, "link of node 1": 200}),
        ([(3, -1, 2)], {"link of node 3": 200}),
    ],
    ids=["at home", "next door", "across racks", "two of four", "crosswise", "in no node"],
)
def test_devices_of_other_nodes_claim_both_ends_and_the_uplinks_between(devices: Any, wanted: dict[str, int]) -> None:
    asked, at = np.array([0, 100]), np.array(sorted({node for node, _, _ in devices}))
    tasks = np.ones(len(at), np.int64)
    claims = LINKS.claims(asked, at, tasks, NONE, rows(*devices))
    assert by_name(claims) == wanted
    assert LINKS.agrees(asked, at, tasks, claims, rows(*devices))
    assert LINKS.agrees(asked, at, tasks, claims) == (not wanted), "without the devices it is another claim"


def test_what_tasks_send_themselves_stays_on_the_links_of_their_nodes() -> None:
    claims = LINKS.claims(np.array([70, 0]), np.array([0, 3]), np.array([2, 1]), NONE)
    assert by_name(claims) == {"link of node 0": 140, "link of node 3": 70}


@pytest.mark.draws(200)
def test_one_more_device_costs_what_it_adds_to_the_claims() -> None:
    """Against the claims themselves, at every node and home, on links that are full here and there."""
    random = np.random.default_rng(1)
    for _ in range(some(200)):
        free, asked = random.integers(0, 300, 6), np.array([0, 100])
        node, homes = int(random.integers(0, 4)), np.arange(-1, 4)
        costs = LINKS.device_costs(asked, free, np.array([node]), homes)
        for home, cost in zip(homes.tolist(), costs[0].tolist(), strict=True):
            claims = LINKS.claims(asked, np.array([node]), np.ones(1, np.int64), free, rows((node, home, 1)))
            fits = bool((claims[:, 1] <= free[claims[:, 0]]).all())
            assert cost == (int(claims[:, 1].sum()) if fits else -1)


@pytest.mark.draws(200)
def test_open_nodes_are_those_where_the_claims_of_one_more_task_are_free() -> None:
    random = np.random.default_rng(2)
    for _ in range(some(200)):
        free, asked = random.integers(0, 500, 6), np.array([100, 100])
        placed = np.flatnonzero(random.random(4) < 0.4)
        tasks = random.integers(1, 3, len(placed))
        devices = rows(*[(int(node), int(random.integers(0, 4)), 1) for node in placed])
        found = LINKS.open_nodes(asked, free, placed, tasks, 1, devices)
        for node in range(4):
            on = np.bincount(placed, tasks, 4).astype(np.int64)
            on[node] += 1
            at = np.flatnonzero(on)
            claims = LINKS.claims(asked, at, on[at], free, devices)
            assert found[node] == bool((claims[:, 1] <= free[claims[:, 0]]).all())


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_takes_devices_at_home_first_and_then_those_of_its_rack(policy: str) -> None:
    result = run(linked(racks={"mb_s": 1500}), jobs_of({"gpus": 6, "remote": 100}), policy)
    node = result.placements["first_node"][0]
    neighbour = node ^ 1
    assert claimed(result, 1) == {f"link of node {node}": 200, f"link of node {neighbour}": 200}


def test_over_four_nodes_it_passes_the_uplinks() -> None:
    result = run(linked(racks={"mb_s": 1500}), jobs_of({"gpus": 10, "remote": 100}))
    assert claimed(result, 1) == {
        "link of node 0": 600, "link of node 1": 400, "link of node 2": 200, "uplink of rack0": 200,
        "uplink of rack1": 200,
    }  # fmt: skip


def test_where_the_link_of_a_node_is_full_the_job_goes_elsewhere_or_waits() -> None:
    full, six = {"own": 950, "cores": 1}, {"gpus": 6, "remote": 100, "submit": 1}
    result = run(linked(), jobs_of(full, six))
    assert result.placements["first_node"].to_list() == [0, 1]
    assert claimed(result, 2) == {"link of node 1": 200, "link of node 2": 200}, "those of node 0 have no way to it"
    four = [{"own": 950, "cores": 15}] * 4
    result = run(linked(), jobs_of(*four, six))
    assert result.jobs["start_s"].to_list() == [0.0] * 4 + [100.0]
    local = {"gpus": 4, "remote": 100, "submit": 1}
    assert run(linked(), jobs_of(*four, local)).jobs["start_s"].to_list() == [0.0] * 4 + [1.0], "at home"


@pytest.mark.parametrize("policy", ["easy", "first-fit", "conservative(memory=disaggregated)"])
def test_explain_says_which_link_is_full(policy: str) -> None:
    jobs = jobs_of(*[{"own": 950, "cores": 15}] * 4, {"gpus": 6, "remote": 100, "submit": 1})
    story = explain(linked(), jobs, parse_policy(policy), 4)
    assert [str(spell.reason) for spell in story.spells] == ["no-room: links: link of node 0 (asked 200, free 50)"]
    story = explain(linked(), jobs_of(*[{"own": 950, "cores": 15}] * 4, {"own": 60}), parse_policy(policy), 4)
    assert str(story.spells[0].reason) == "no-room: links: link of node 0, where most is left (asked 60, free 50)"


def test_oversubscribed_links_hold_more_than_they_carry() -> None:
    result = run(linked(nodes=2, oversubscribe=1.5), jobs_of(*[{"own": 500, "cores": 12}] * 2, *[{"own": 500}] * 4))
    assert result.jobs["start_s"].to_list() == [0.0] * 6
    assert result.metrics["peak_links"] == 1.5


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"own": 1001}, "too-big: links.mb_s on one link (asked 1001, free 1000)"),
        ({"own": 600, "tasks": 5}, "too-big: places for tasks with 600 links.mb_s (asked 5, free 4)"),
        ({"gpus": 6, "remote": 600},
         "too-big: links.remote_mb_s on one link, of 2 devices of other nodes (asked 1200, free 1000)"),
    ],
)  # fmt: skip
def test_who_asks_for_more_than_links_carry_is_rejected_with_a_reason(row: dict[str, int], words: str) -> None:
    for policy in ("easy", "first-fit"):
        assert run(linked(), jobs_of(row), policy).jobs["reason"].to_list() == [words]


def test_a_job_whose_devices_can_be_at_home_is_let_in_whatever_they_would_send() -> None:
    result = run(linked(), jobs_of({"gpus": 4, "remote": 5000}))
    assert result.jobs["state"].to_list() == ["finished"]
    assert claimed(result, 1) == {}
    assert not LINKS.never(1, np.array([5000]), Gangs(np.ones(1, int), np.ones(1, int), np.zeros(1, int))).any()


def test_the_ledger_refuses_a_lease_with_other_claims_than_its_devices_make() -> None:
    core = Core(linked(), jobs_of({"gpus": 1, "remote": 100}, {"gpus": 1, "remote": 100}), parse_policy("easy"))
    for job in range(2):
        core.handle(Submitted(job), 0)
    row, share = np.array([[0, 1, 1, 1, 0]]), Share(0, (4,), (1,))  # a device of node 1
    for claims in ([], [[0, 100]], [[0, 100], [1, 50]], [[0, 100], [2, 100]], [[0, 100], [1, 100], [2, 100]]):
        lease = Lease(0, row, shares=(share,), claims=np.array(claims, np.int64).reshape(-1, 2))
        with pytest.raises(RefusedError, match=r"not 100 of links link of node 0, 100 of links link of node 1"):
            core.state.start(lease, 10, 0)
    at_home = Lease(0, row, shares=(Share(0, (0,), (1,)),), claims=np.array([[0, 100], [1, 100]]))
    with pytest.raises(RefusedError, match=r"not nothing"):
        core.state.start(at_home, 10, 0)
    assert core.state.claimed is not None
    assert (core.state.claimed.free == 1000).all()
    assert core.state.devices is not None
    started = [decision for decision in core.handle(Round(), 0) if isinstance(decision, Start)]
    assert [len(decision.lease.claims) for decision in started] == [0, 0]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], JobTable]:
    """Links with uplinks or without, oversubscribed or not, and jobs with devices that sit here and there."""
    links: dict[str, Any] = {"oversubscribe": draw(st.sampled_from([1.0, 1.5]))}
    if draw(st.booleans()):
        links["racks"] = {"mb_s": draw(st.sampled_from([400, 1200]))}
    count = draw(st.integers(2, 12))
    one = st.fixed_dictionaries({
        "submit": st.integers(0, 40), "work": st.integers(0, 30), "tasks": st.integers(1, 3),
        "cores": st.integers(1, 9), "gpus": st.integers(0, 3), "own": st.sampled_from([0, 0, 150, 400]),
        "remote": st.sampled_from([0, 100, 350]),
    })  # fmt: skip
    found = sorted((draw(one) for _ in range(count)), key=lambda row: row["submit"])
    return links, jobs_of(*found)


@draws(40)
@given(worlds(), st.sampled_from(POLICIES))
def test_what_is_claimed_is_what_jobs_send_and_never_more_than_links_hold(
    world: tuple[dict[str, Any], JobTable], policy: str
) -> None:
    links, jobs = world
    result = run(linked(gpus=2, **links), jobs, policy)
    sent: dict[tuple[int, str], int] = defaultdict(int)
    times = {}
    for row in result.placements.iter_rows(named=True):
        times[row["job"]] = row["start_s"], row["end_s"]
        for node in range(row["first_node"], row["first_node"] + row["nodes"]):
            sent[row["job"], f"link of node {node}"] += row["tasks_per_node"] * int(
                jobs.devices["links", "mb_s"][row["job"] - 1]
            )
    for row in result.table("shares").iter_rows(named=True):
        each = int(jobs.devices["links", "remote_mb_s"][row["job"] - 1])
        for device in row["devices"]:
            at, home = row["node"], device // 2
            if at != home:
                ends = [f"link of node {at}", f"link of node {home}"]
                if at // 2 != home // 2 and "racks" in links:
                    ends += [f"uplink of rack{at // 2}", f"uplink of rack{home // 2}"]
                for end in ends:
                    sent[row["job"], end] += each
    wanted = {key: amount for key, amount in sent.items() if amount}
    assert {(row["job"], row["place"]): row["amount"] for row in result.table("claims").iter_rows(named=True)} == wanted
    for _, place in wanted:
        most = (links["racks"]["mb_s"] if place.startswith("up") else 1000) * links["oversubscribe"]
        spells = [(*times[job], amount) for (job, where), amount in wanted.items() if where == place]
        for moment, _, _ in spells:
            assert sum(amount for start, end, amount in spells if start <= moment < end) <= most
