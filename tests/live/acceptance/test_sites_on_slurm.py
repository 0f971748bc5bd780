"""A site of a real Slurm: overlapping partitions, features, node lists and a reservation, under three users."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed

from unrack.slurm_text.hostlists import expand

pytestmark = pytest.mark.live
HOSTS = {"main": "n[1-12]", "left": "n[1-6]", "right": "n[5-12]"}
USERS = ("nobody", "daemon", "games")
FAST, IB, BIG = expand("n[1-2,7-8]"), expand("n[2-5,8-12]"), ["n6"]
RESERVED = ["n3", "n9", "n10"]


def wish(draw: random.Random) -> dict[str, Any]:
    """What one job asks, which some node of its partitions has."""
    partition = draw.choice(["main", "left", "right", "left,right", "right,left"])
    asked: dict[str, Any] = {
        "partition": partition, "user": draw.choice(USERS), "script": f"sleep {draw.choice([1, 1, 2, 3])}",
        "hold": True, "time": "1", "mem": draw.choice([200, 4000]),
    }  # fmt: skip
    kind = draw.choice(["", "features", "either", "list", "exclude", "percpu", "wide", "gres", "exclusive"])
    if kind == "features":
        asked["constraint"] = draw.choice(["fast", "ib", "fast&ib"])
    elif kind == "either":
        asked |= {"constraint": "[fast|ib]", "nodes": 2}
    elif kind == "list":
        asked |= {"nodelist": {"left": "n4", "right": "n7", "main": "n11"}.get(partition, "n5"), "nodes": 2}
    elif kind == "exclude":
        asked["exclude"] = "n[1-2,5-6]"
    elif kind == "percpu":
        del asked["mem"]
        asked |= {"mem_per_cpu": 500, "ntasks": 3}
    elif kind == "wide":
        asked |= {"nodes": 3, "ntasks": 6}
    elif kind == "gres":
        asked["gres"] = "nvme:2"
    elif kind == "exclusive":
        asked["exclusive"] = True
    return asked


def allowed(asked: dict[str, Any], ran_on: set[str]) -> bool:
    """Whether a job may run there, by its words alone."""
    members = [set(expand(HOSTS[name])) for name in asked["partition"].split(",")]
    features = {"fast": set(FAST), "ib": set(IB), "fast&ib": set(FAST) & set(IB), "": ran_on}
    ways = [features[one] for one in asked.get("constraint", "").strip("[]").split("|")]
    return (
        any(ran_on <= inside for inside in members)
        and any(ran_on <= way for way in ways)
        and set(expand(asked.get("nodelist", next(iter(ran_on))))) <= ran_on
        and not ran_on & set(expand(asked.get("exclude", "none")))
    )


def test_jobs_of_a_site_run_where_they_may_and_none_is_stuck(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=12, remember_s=3000, partitions=HOSTS, parameters="sched_interval=1,batch_sched_delay=1")
    for features, nodes in (("fast", FAST), ("ib", IB), ("fast,ib", sorted(set(FAST) & set(IB))), ("big", BIG)):
        bed.scontrol("update", f"NodeName={','.join(nodes)}", f"AvailableFeatures={features}",
                     f"ActiveFeatures={features}")  # fmt: skip
    for name, nodes in (("course", "n3,n9"), ("spare", "n10")):
        bed.scontrol("create", "reservation", f"ReservationName={name}", "StartTime=now", "Duration=60",
                     f"Nodes={nodes}", "Users=daemon")  # fmt: skip
    driven = Driven(bed, tmp_path, "easy", partitions=list(HOSTS), start_timeout="60 s")
    draw = random.Random(7)
    asked = [wish(draw) for _ in range(90)]
    course = [{"partition": "main", "user": "daemon", "script": "sleep 2", "hold": True, "time": "1", "mem": 100,
               "reservation": "spare,course", "exclusive": True} for _ in range(6)]  # fmt: skip
    outside = {"partition": "left", "script": "sleep 1", "hold": True, "time": "1", "mem": 100, "constraint": "big&ib"}
    jobs = bed.submit_many(asked[:45])
    driven.start()
    began = time.monotonic()
    try:
        odd = bed.submit(**outside, user="games", nodes=2)
        jobs += bed.submit_many(asked[45:])
        own = bed.submit_many(course)
        bed.wait_until(lambda: driven.all_over([*jobs, *own]), 60, "all jobs are over")
        took_s = time.monotonic() - began
        status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
        left = {one["key"]: str(one.get("why", "")) for one in status["jobs"]}
        bed.cancel(odd)
    finally:
        driven.stop()
    assert list(left) == [str(odd)]
    assert "big&ib" in left[str(odd)]
    for job, said in zip([*jobs, *own], [*asked, *course], strict=True):
        ran_on = set(expand(bed.job(job)["NodeList"]))
        assert allowed(said, ran_on), (said, ran_on)
        assert bool(ran_on & set(RESERVED)) == ("reservation" in said), (said, ran_on)
    assert set(RESERVED) == {name for job in own for name in expand(bed.job(job)["NodeList"])}
    refused = [entry.get("refused") for record in driven.records() for entry in record["entries"].values() if entry]
    assert not any(refused), set(refused)
    audit(driven, [*jobs, *own])
    assert took_s < 150


@pytest.mark.live_quick
def test_a_job_that_slurm_refuses_asks_again_for_what_its_user_asked(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    bed = new_bed(nodes=4, remember_s=3000, licences={"matlab": 4}, partitions={"left": "n[1-3]", "right": "n[2-4]"})
    bed.scontrol("create", "reservation", "ReservationName=all", "StartTime=now", "Duration=60", "Users=nobody",
                 "Licenses=matlab:4", "Flags=LICENSE_ONLY")  # fmt: skip
    driven = Driven(bed, tmp_path, "easy", partitions=["left", "right"], start_timeout="120 s")
    asked = {"script": "sleep 1", "hold": True, "time": "1", "mem": 100, "partition": "left,right"}
    job = bed.submit(**asked, licenses="matlab:1", nodelist="n3", nodes=2, user="nobody")
    pinned = bed.submit(**asked, licenses="matlab:1", nodelist="n4")
    driven.start(driven.blind_to_reservations())
    try:

        def reasons() -> dict[str, str]:
            status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
            return {one["key"]: str(one.get("why", "")) for one in status["jobs"]}

        bed.wait_until(lambda: all("Licenses" in reasons().get(str(one), "") for one in (job, pinned)), 15)
        for one, nodes, count in ((job, "n3", "2"), (pinned, "n4", "1")):
            shown = bed.job(one)
            assert (shown["Partition"], shown["ReqNodeList"]) == ("left,right", nodes), shown
            assert shown["NumNodes"].split("-")[0] == count
        bed.scontrol("delete", "ReservationName=all")
        for name in ("left", "right"):
            bed.scontrol("update", f"PartitionName={name}", "DefaultTime=2")
        bed.wait_for([job, pinned], "COMPLETED", timeout_s=20)
        assert "n3" in expand(bed.job(job)["NodeList"])
        assert bed.job(pinned)["NodeList"] == "n4"
        assert bed.job(pinned)["Partition"] == "right"
    finally:
        driven.stop()
    audit(driven, [job, pinned])


def test_a_job_of_a_reservation_starts_when_that_begins_and_others_go_round_it(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    bed = new_bed(nodes=3, remember_s=3000)
    driven = Driven(bed, tmp_path, "conservative", start_timeout="10 s")
    bed.scontrol("create", "reservation", "ReservationName=soon", "StartTime=now+1minutes", "Duration=30", "Nodes=n1",
                 "Users=nobody,root", "Flags=DAILY")  # fmt: skip
    asked = {"script": "sleep 2", "hold": True, "time": "1", "mem": 100, "exclusive": True}
    own = [bed.submit(**asked, reservation="soon", user="nobody") for _ in range(2)]
    driven.start()
    try:
        others = bed.submit_many([{**asked, "time": "5"}] * 6)
        bed.wait_until(lambda: driven.all_over(others), 40)
        assert {bed.job(job)["JobState"] for job in own} == {"PENDING"}
        bed.wait_until(lambda: driven.all_over(own), 90)
        wide = bed.submit(**asked, nodes=3)
        time.sleep(3)
        assert bed.state(wide) == "PENDING"
        bed.scontrol("delete", "ReservationName=soon")
        bed.wait_for([wide], "COMPLETED", timeout_s=20)
    finally:
        driven.stop()
    assert {bed.job(job)["NodeList"] for job in own} == {"n1"}
    assert "n1" not in {bed.job(job)["NodeList"] for job in others}
    assert set(RESERVED) == {name for job in own for name in expand(bed.job(job)["NodeList"])}
    refused = [entry.get("refused") for record in driven.records() for entry in record["entries"].values() if entry]
    assert not any(refused), set(refused)
    audit(driven, [*own, *others, wide])


def test_cores_that_a_reservation_keeps_are_its_own_and_others_have_the_rest_of_its_nodes(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    bed = new_bed(nodes=3, remember_s=3000)
    bed.scontrol("create", "reservation", "ReservationName=some", "StartTime=now", "Duration=60", "Nodes=n1,n2",
                 "CoreCnt=5,3", "Users=nobody")  # fmt: skip
    bed.scontrol("create", "reservation", "ReservationName=late", "StartTime=now+2minutes", "Duration=60", "Nodes=n3",
                 "CoreCnt=6", "Users=nobody")  # fmt: skip
    driven = Driven(bed, tmp_path, "easy", start_timeout="20 s")
    asked = {"script": "sleep 4", "hold": True, "mem": 100, "partition": "main"}
    driven.start()
    try:
        # others may have 3, 5 and, beyond the begin of the second, 2 cores
        own = [
            bed.submit(**asked, time="1", reservation="some", user="nobody", cpus_per_task=cpus) for cpus in (3, 3, 2)
        ]
        others = [bed.submit(**asked, time="5", cpus_per_task=cpus) for cpus in (5, 3, 2, 3, 6, 5)]
        bed.wait_until(lambda: driven.all_over([*own, *others[:4], others[5]]), 90)
        assert bed.state(others[4]) == "PENDING"
        bed.scontrol("delete", "ReservationName=late")
        bed.wait_until(lambda: driven.all_over([others[4]]), 40)
    finally:
        driven.stop()
    assert {bed.job(job)["NodeList"] for job in own} == {"n1", "n2"}
    ran = {job: bed.job(job)["NodeList"] for job in others}
    assert [ran[others[i]] for i in (0, 4, 5)] == ["n2", "n3", "n2"], ran
    assert set(RESERVED) == {name for job in own for name in expand(bed.job(job)["NodeList"])}
    refused = [entry.get("refused") for record in driven.records() for entry in record["entries"].values() if entry]
    assert not any(refused), set(refused)
    audit(driven, [*own, *others])
