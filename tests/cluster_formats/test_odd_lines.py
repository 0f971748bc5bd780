"""What a site's files say twice, or in words that are none, is refused or told: nothing is left out silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from unrack.cluster.formats.described import converted, together
from unrack.cluster.formats.reading import described
from unrack.errors import ClusterError

NODES = "NodeName=n[1-4] CPUs=8\nPartitionName=p Nodes=ALL\n"
DUMP = "Cluster - 'lab'\nParent - 'root'\nAccount - 'a'\nParent - 'a'\nUser - 'u':Fairshare=3\n"
RESERVATION = "ReservationName=r StartTime=2026-01-03T00:00:00 EndTime={} Nodes=n1 NodeCnt=1 Users=u\n"


def notes_of(*texts: str) -> str:
    found = [described(Path(f"f{place}"), text, f"f{place}") for place, text in enumerate(texts)]
    return "\n".join(converted(together([one for one in found if one is not None])).notes)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("this is no line", "line 3: got 'this is no line', wanted KEY=VALUE"),
        ("PartitionName=q Nodes=n1, n2", "line 3: got 'n2', wanted KEY=VALUE"),
        ("PartitionName=q Nodes=n1 MaxTime=2 days", "line 3: got 'days', wanted KEY=VALUE"),
        ("PartitonName=q Nodes=n1", "line 3, nodes: got partitonname, wanted NodeName, PartitionName or NodeSet"),
        ("NodeNmae=m1 CPUs=4 RealMemory=7", "line 3, cpus: got nodenmae"),
        ("NodeName=n4 CPUs=4", "line 3, NodeName: got n4 once more"),
        ("Prolog=\\\n/bin/true \\\nmore", "line 3: got 'more'"),
    ],
)
def test_a_line_of_slurm_conf_that_slurm_does_not_take_is_none_here(line: str, words: str) -> None:
    with pytest.raises(ClusterError) as raised:
        notes_of(NODES + line + "\n")
    assert words in str(raised.value)


def test_keys_of_nodes_that_mean_nothing_here_are_told() -> None:
    notes = notes_of(NODES + "NodeName=m1 CPUs=4 RealMemroy=9000 TmpDisk=70 Port=7001 Reason='x'\nProlog=/bin/true\n")
    assert "realmemroy of nodes is not taken over: m1 (9000)." in notes
    assert "TmpDisk of nodes is not taken over: m1 (70)." in notes
    assert notes.count("of nodes is not") == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DUMP + "User - 'u':Fairshare=9\n", "f1, line 6: got u in a once more"),
        (DUMP + "Account - 'A'\n", "f1, line 6: got account in a once more"),
        ("Account|User|Share\nroot||1\na||2\na||3\n", "f1, line 4: got account in a once more"),
        ("Name|Priority\nhigh|5\nHigh|6\n", "f1, line 3, Name: got high once more"),
        ("PartitionName=p AllocNodes=ALL MaxTime=1-0\nPartitionName=p AllocNodes=ALL MaxTime=2-0\n", "got p once"),
        (RESERVATION.format("2026-01-04T00:00:00") * 2, "f1, line 2: got r once more"),
        ('{"nodes": [' + ", ".join(['{"name": "x", "cpus": 4, "real_memory": 3}'] * 2) + "]}", "got x once more"),
    ],
)  # fmt: skip
def test_what_one_file_says_twice_is_refused(text: str, words: str) -> None:
    with pytest.raises(ClusterError) as raised:
        notes_of(NODES, text)
    assert words in str(raised.value)


def test_a_user_may_have_an_association_beside_those_of_partitions() -> None:
    rows = "Account|User|Partition|Share\nroot|||1\n a|||2\n a|u|p|2\n a|u||3\n a|u|q|2\n"
    assert "Associations of one partition are not taken over: u in a (q)." in notes_of(NODES, rows)


def test_a_reservation_that_ends_before_it_begins_is_told() -> None:
    told = "Reservations that end before they begin are left out: r."
    assert told in notes_of(NODES, RESERVATION.format("2026-01-02T00:00:00"))
    assert told not in notes_of(NODES, RESERVATION.format("2026-01-04T00:00:00"))


def test_lines_that_slurm_takes_are_taken() -> None:
    odd = 'DebugFlags+=Backfill\nSlurmctldHost = head(10.0.0.1)\nProlog="/etc/pro log.sh" # one\n\tmailprog=/bin/x\n'
    assert notes_of(NODES + odd).splitlines() == notes_of(NODES).splitlines()
