"""Reservations of Slurm as ``site.reservations``: as text beside the nodes, and as a running Slurm tells of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.cluster.formats.described import Described, converted, together
from unrack.cluster.formats.reading import described
from unrack.cluster.formats.reservations import reservation_keys
from unrack.cluster.formats.site import Lost
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError

CONF = "ClusterName=hill\nLicenses=matlab:6,idl:1\nNodeName=n[1-4] CPUs=16\nPartitionName=batch Nodes=ALL\n"
SHOWN = """\
ReservationName=course StartTime=2026-03-02T10:00:00 EndTime=2026-03-02T14:00:00 Duration=04:00:00
   Nodes=n[1-2] NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=batch Flags=DAILY,SPEC_NODES
   TRES=cpu=32
   Users=(null) Groups=(null) Accounts=Teaching,chem Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

ReservationName=firmware StartTime=2026-03-01T00:00:00 EndTime=2026-03-01T08:00:00 Duration=08:00:00
   Nodes=n[3-4,9] NodeCnt=3 CoreCnt=48 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES
   TRES=cpu=48
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a

ReservationName=seats StartTime=2026-03-05T00:00:00 EndTime=2026-03-06T00:00:00 Duration=1-00:00:00
   Nodes=(null) NodeCnt=0 CoreCnt=0 Features=(null) PartitionName=(null) Flags=LICENSE_ONLY
   Users=ann,bob Accounts=(null) Licenses=matlab:4 State=INACTIVE

ReservationName=more StartTime=2026-03-05T12:00:00 EndTime=2026-03-06T00:00:00 Duration=12:00:00
   Nodes=n1 NodeCnt=1 CoreCnt=16 Features=(null) PartitionName=batch Flags=SPEC_NODES
   Users=ann Accounts=(null) Licenses=matlab:3 State=INACTIVE

ReservationName=buffers StartTime=2026-03-05T00:00:00 EndTime=2026-03-06T00:00:00 Duration=1-00:00:00
   Nodes=(null) NodeCnt=0 CoreCnt=0 Features=(null) PartitionName=(null) Flags=ANY_NODES
   Users=ann,bob Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=cray:100G

ReservationName=days StartTime=2026-03-01T12:00:00 EndTime=2026-03-01T13:00:00 Duration=01:00:00
   Nodes=n4 NodeCnt=1 CoreCnt=4 Features=(null) PartitionName=batch Flags=WEEKDAY,FLEX,MAGNETIC,PURGE_COMP=00:05:00
     NodeName=n4 CoreIDs=0-3
   TRES=cpu=4
   Users=-eve,-bob Groups=staff Accounts=-spent Licenses=idl:1 State=INACTIVE
"""


@pytest.mark.parametrize("one_line", [False, True])
def test_what_scontrol_showed_is_taken_beside_the_nodes(tmp_path: Path, one_line: bool) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    text = SHOWN.replace("\n  ", " ").replace("\n\n", "\n") if one_line else SHOWN
    (tmp_path / "reservations.txt").write_text(text)
    words = ["cluster", "convert", str(tmp_path / "slurm.conf"), str(tmp_path / "reservations.txt")]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "hill.toml")])
    assert done.exit_code == 0, done.output
    made = tomllib.loads((tmp_path / "hill.toml").read_text())
    found = {one["name"]: {key: one[key] for key in one if key != "name"} for one in made["site"]["reservations"]}
    day = 86_400
    assert found == {
        "course": {"nodes": ["n[1-2]"], "start": 34 * 3600, "duration": 4 * 3600, "every": day,
                   "until": 34 * 3600 + 28 * day, "accounts": ["teaching", "chem"]},
        "firmware": {"nodes": ["n[3-4]"], "start": 0, "duration": 8 * 3600, "maintenance": True},
        "seats": {"start": 4 * day, "duration": day, "users": ["ann", "bob"], "licences": {"matlab": 4}},
        "more": {"nodes": ["n1"], "start": 4 * day + 12 * 3600, "duration": 12 * 3600, "users": ["ann"]},
        "days": {"nodes": ["n4"], "cores": [4], "start": 12 * 3600, "duration": 3600, "every": day,
                 "until": 12 * 3600 + 28 * day,
                 "licences": {"idl": 1}, "flex": True, "days": ["mon", "tue", "wed", "thu", "fri"], "start_day": "sun",
                 "denied_users": ["eve", "bob"], "denied_accounts": ["spent"]},
    }  # fmt: skip
    # 28 days, thrice 20 of them (its own, with a licence and with cores), and 1, 2 and 1 of the others
    assert len(Cluster.from_dict(made, "hill").places.windows) == 28 + 3 * 20 + 4
    said = " ".join(done.output.split())
    for words in (
        "0 at 2026-03-01T00:00:00", "something else than nodes and licences are not taken over: buffers",
        "of which there are too few are not kept: more (3 matlab)", "for groups of users are taken over without these",
        "come again are said for 28 days: course, days",
        "Flags of reservations are not taken over: days (MAGNETIC, PURGE_COMP)",
    ):  # fmt: skip
        assert words in said, said


CORES = """\
ReservationName=now StartTime=2026-11-26T08:00:00 EndTime=2026-11-26T09:00:00 Duration=01:00:00
   Nodes=n[1-3] NodeCnt=3 CoreCnt=9 Features=(null) PartitionName=batch Flags=SPEC_NODES
     NodeName=n1 CoreIDs=0-1
     NodeName=n2 CoreIDs=0,4-5
     NodeName=n3 CoreIDs=4-7
   TRES=cpu={cpus}
   Users=ann
ReservationName=later StartTime=2026-11-26T10:00:00 EndTime=2026-11-26T11:00:00 Duration=01:00:00
   Nodes=n[2-3] NodeCnt=2 CoreCnt={count} Features=(null) PartitionName=batch Flags=
   Users=ann
"""


@pytest.mark.parametrize(
    ("cpus", "count", "now", "later"),
    [
        (9, 5, ["n1", "n2", "n3", 2, 3, 4], ["n[2-3]", 4]),  # at most 4 of one, as the other has one or more
        (18, 16, ["n1", "n2", "n3", 4, 6, 8], ["n[2-3]", 15]),
        (9, 32, ["n1", "n2", "n3", 2, 3, 4], ["n[2-3]"]),
    ],
)
def test_some_cores_of_nodes_are_told_by_node_while_a_reservation_lasts_and_at_most_before(
    tmp_path: Path, cpus: int, count: int, now: list[object], later: list[object]
) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "reservations.txt").write_text(CORES.format(cpus=cpus, count=count))
    words = ["cluster", "convert", str(tmp_path / "slurm.conf"), str(tmp_path / "reservations.txt")]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "hill.toml")])
    assert done.exit_code == 0, done.output
    made = tomllib.loads((tmp_path / "hill.toml").read_text())
    assert [one["nodes"] + one.get("cores", []) for one in made["site"]["reservations"]] == [now, later]
    kept = Cluster.from_dict(made, "hill").places.installed["site"].written()["reservations"]
    assert kept[0]["cores"] == now[3:]


def test_cores_of_nodes_that_have_too_few_for_two_reservations_keep_the_whole_nodes(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    both = CORES.format(cpus=9, count=15).replace("T10:00:00", "T08:30:00")
    (tmp_path / "reservations.txt").write_text(both)
    words = ["cluster", "convert", str(tmp_path / "slurm.conf"), str(tmp_path / "reservations.txt")]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "hill.toml")])
    assert "keep the whole nodes here: later" in " ".join(done.output.split())
    made = tomllib.loads((tmp_path / "hill.toml").read_text())
    assert [one.get("cores") for one in made["site"]["reservations"]] == [[2, 3, 4], None]
    Cluster.from_dict(made, "hill")


def test_one_that_has_begun_or_is_over_is_told_by_the_clock_of_the_jobs() -> None:
    fields = {"ReservationName": "r", "StartTime": "1000000", "EndTime": "1000600", "Nodes": "n1", "Users": "ann"}
    assert reservation_keys(fields, "here", Lost(), 1_000_100) == {
        "nodes": ["n1"], "start": -100, "duration": 600, "users": ["ann"],
    }  # fmt: skip
    assert reservation_keys(fields, "here", Lost(), 1_000_700) is None
    endless = {**fields, "EndTime": "Unknown", "Duration": "UNLIMITED"}
    keys = reservation_keys(endless, "here", Lost(), 1_000_700)
    assert keys is not None
    assert keys["duration"] > 10 * 365 * 86_400
    again = reservation_keys({**fields, "Flags": "WEEKLY"}, "here", Lost(), 1_000_700.5, 8 * 86_400)
    assert again is not None
    assert (again["start"], again["every"], again["until"]) == (-700.5, 604_800, 8 * 86_400)


def test_what_comes_again_before_it_is_over_comes_once_which_is_told() -> None:
    lost, fields = Lost(), {"ReservationName": "r", "StartTime": "1000000", "EndTime": "1100000", "Nodes": "n1"}
    found = reservation_keys({**fields, "Flags": "DAILY,SPEC_NODES"}, "file", lost, 1_000_000)
    assert (found, lost) == (
        {"nodes": ["n1"], "start": 0, "duration": 100_000}, {"Flags of reservations are not taken over": {"r": "DAILY"}}
    )  # fmt: skip


def test_there_may_be_no_reservation(tmp_path: Path) -> None:
    text = "No reservations in the system\n"
    assert described(tmp_path / "r.txt", text, "r.txt") == Described("r.txt", "r", ())


@pytest.mark.parametrize("fields", [{"StartTime": "soon"}, {"Nodes": "n[1"}, {"EndTime": "never"}, {"StartTime": ""}])
def test_values_that_cannot_be_are_refused_with_their_place(fields: dict[str, str]) -> None:
    usual = {"ReservationName": "r", "StartTime": "1000000", "EndTime": "1000600", "Nodes": "n1"}
    with pytest.raises(ClusterError) as error:
        reservation_keys({**usual, **fields}, "file, line 3", Lost(), 0)
    assert f"file, line 3, {next(iter(fields))}" in error.value.where


def test_of_licences_that_a_reservation_keeps_those_are_left_out_of_which_there_are_too_few() -> None:
    text = (
        "ReservationName=r StartTime=2026-01-01T00:00:00 EndTime=2026-01-02T00:00:00 Nodes= Licenses=matlab:3,gone:2\n"
    )
    found = [described(Path(name), said, name) for name, said in (("a.conf", CONF), ("r", text))]
    made = converted(together([one for one in found if one is not None]))
    assert [one["licences"] for one in made.content["site"]["reservations"]] == [{"matlab": 3}]
    assert "Licences of reservations of which there are too few are not kept: r (2 gone)." in made.notes
