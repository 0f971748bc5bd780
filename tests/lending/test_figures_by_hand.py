"""Figures 6.1 and 6.2 of the thesis, worked by hand.

The drawings are known only from what sections 6.1.2 and 6.1.3 say about them; clusters and jobs here are made so that
every such sentence comes out. Nodes N1, N2 … of the text are nodes 0, 1 … here.
"""

from __future__ import annotations

import pytest
from lending_worlds import attempts_of
from small_worlds import J, S, work

import unrack

FIVE = unrack.Cluster.homogeneous(nodes=5, cores=1, memory=32)
N1, N2, N3, N4, N5 = range(5)


class Ran:
    """A run by the public interface: job → start (s), nodes, memory of its own and borrowed."""

    def __init__(self, cluster: unrack.Cluster, policy: str, **jobs: J) -> None:
        log = unrack.simulate(cluster, work(*jobs.values()), policy).log
        held = attempts_of(log)
        self.start = {name: held[i].start // S for i, name in enumerate(jobs) if i in held}
        self.local = {name: {row[0]: row[4] for row in held[i].rows} for i, name in enumerate(jobs) if i in held}
        self.loans = {name: held[i].loans for i, name in enumerate(jobs) if i in held}

    def nodes(self, name: str) -> list[int]:
        """The nodes on which a job computes."""
        return list(self.local[name])


def on(nodes: int, mb: int, submit: int = 0, run: int = 100) -> J:
    """A job of one task a node."""
    return J(submit, run, nodes, mb=mb)


def test_figure_6_1_a_strawman_takes_cores_and_memory_independently() -> None:
    ran = Ran(FIVE, "strawman(scheduler=fcfs)", A=on(2, 48), B=on(1, 20))
    # "we first select the processing units. Later, we iterate over the nodes with memory available and accumulate it"
    assert ran.nodes("A") == [N1, N2]
    assert ran.loans["A"] == [[N1, N3, 16], [N2, N3, 16]]
    # "Job B using a single node allocates its whole memory requirement remotely because the local memory associated
    # with the selected compute units in node N3 is already taken by Job A"
    assert ran.local["B"] == {N3: 0}
    assert ran.loans["B"] == [[N3, N4, 20]]


def test_figure_6_1_b_naive_packs_memory_on_few_nodes_and_computes_where_there_is_little() -> None:
    ran = Ran(
        FIVE, "naive(scheduler=fcfs)",
        A=on(2, 32, run=5), B=on(2, 44), C=on(2, 16, submit=6), G=on(1, 20, submit=7),
    )  # fmt: skip
    # before C: A fills N1 and N2, so that B, on N3 and N4, takes what it lacks from N5
    assert (ran.local["B"], ran.loans["B"]) == ({N3: 32, N4: 32}, [[N3, N5, 12], [N4, N5, 12]])
    # "Job C uses two processes (running on node N1 and N2) and its memory requirement can fit on a single node"
    assert ran.nodes("C") == [N1, N2]
    # "the approach will allocate the memory locally for the process running on node N1 and remotely for the process
    # running on node N2"
    assert (ran.local["C"], ran.loans["C"]) == ({N1: 16, N2: 0}, [[N2, N1, 16]])
    # "Job G is allocated to node N5 which has low local memory available, the remaining capacity is allocated remotely
    # on node N2"
    assert (ran.local["G"], ran.loans["G"]) == ({N5: 8}, [[N5, N2, 12]])


def test_figure_6_1_c_local_computes_only_on_nodes_with_enough_memory() -> None:
    jobs = {"H": on(3, 40), "K": on(1, 16, submit=1)}
    ran = Ran(FIVE, "local(scheduler=fcfs)", **jobs)
    # "the allocation accumulates the total required remote memory for the whole job … several of its nodes contending
    # for the same memory node"
    assert ran.loans["H"] == [[N1, N4, 8], [N2, N4, 8], [N3, N4, 8]]
    # "node N4 has CPU and memory available, however, it effectively becomes a memory node as the memory available is
    # too low to receive new requests (most of its capacity has been taken by another job). As a consequence, the next
    # job to start, Job K, allocates node N5 which satisfies its CPU and memory requirements"
    assert (ran.local["K"], ran.loans["K"]) == ({N5: 16}, [])
    assert ran.start["K"] == 1
    # where it is not below the threshold, K computes on N4
    assert Ran(FIVE, "local(scheduler=fcfs, threshold=0.25)", **jobs).nodes("K") == [N4]


def test_figure_6_1_d_local_spread_gives_every_node_a_lender_of_its_own() -> None:
    # "for Job L running on nodes N1 and N2, it will receive memory capacity from node N3 for the process running on
    # node N1 and memory from node N4 for the process running on node N2"
    spread = Ran(FIVE, "local-spread(scheduler=fcfs)", L=on(2, 40))
    assert (spread.local["L"], spread.loans["L"]) == ({N1: 32, N2: 32}, [[N1, N3, 8], [N2, N4, 8]])
    # "eliminating the contention the job would have had accessing the same memory node"
    local = Ran(FIVE, "local(scheduler=fcfs)", L=on(2, 40))
    assert (local.local["L"], local.loans["L"]) == ({N1: 32, N2: 32}, [[N1, N3, 8], [N2, N3, 8]])


def half_large() -> unrack.Cluster:
    """ "half of its nodes having 32 GB (5 nodes on the left) and 64 GB of memory (5 nodes on the right)"."""
    gigabyte = 1000
    return unrack.Cluster.from_dict(
        {
            "nodes": [
                {"name": "normal", "count": 5, "cores": 1, "memory": 32 * gigabyte},
                {"name": "large", "count": 5, "cores": 1, "memory": 64 * gigabyte},
            ]
        }
    )


N6, N8, N9, N10 = 5, 7, 8, 9
FIGURE_6_2 = {"A": on(2, 30_000), "B": on(2, 40_000, 1), "C": on(1, 104_000, 2), "D": on(1, 40_000, 3)}


@pytest.mark.parametrize("scheduler", ["slurm", "fcfs", "easy", "conservative"])
def test_figure_6_2_disaggregated_borrows_only_where_no_node_has_enough(scheduler: str) -> None:
    ran = Ran(half_large(), f"disaggregated(scheduler={scheduler})", **FIGURE_6_2)
    # "jobs A, B, and D uses only local memory since the approach is able to find the best node that satisfies the job's
    # memory-per-node request"
    assert (ran.local["A"], ran.loans["A"]) == ({N1: 30_000, N2: 30_000}, [])
    assert (ran.local["B"], ran.loans["B"]) == ({N6: 40_000, N6 + 1: 40_000}, [])
    assert (ran.local["D"], ran.loans["D"]) == ({N10: 40_000}, [])
    # "job C requires more memory than any node in the system is able to provide": it uses remote memory. "Instead of
    # using normal nodes to satisfy the job's C request, the approach uses large nodes"
    assert (ran.local["C"], ran.loans["C"]) == ({N8: 64_000}, [[N8, N9, 40_000]])
    # "only 37,5% of its local memory is available"
    assert (64_000 - ran.loans["C"][0][2]) / 64_000 == 0.375
    assert set(ran.start.values()) == {0, 1, 2, 3}


def test_figure_6_2_local_spread_would_borrow_for_jobs_b_and_c_on_normal_nodes() -> None:
    ran = Ran(half_large(), "local-spread(scheduler=fcfs)", **FIGURE_6_2)
    # "the jobs can use nodes with much less total memory, and then to fulfill the requirement it will use more remote
    # memory"
    assert ran.local["B"] == {N3: 32_000, N4: 32_000}
    assert ran.loans["B"] == [[N3, N5, 8_000], [N4, N6, 8_000]]
    # "the allocation will favor nodes that already have memory remotely allocated instead of using nodes with free
    # memory, consequently, the job will have its execution slowed down due to unnecessary use of remote memory"
    assert ran.local["C"] == {N5: 24_000}
    assert sum(mb for _, _, mb in ran.loans["C"]) == 80_000


def test_figure_6_2_node_n9_is_a_memory_node_for_a_newly_submitted_job_unless_lenders_may_compute() -> None:
    # three normal nodes and N9 are idle
    jobs = {**FIGURE_6_2, "E": on(4, 16_000, 4)}
    # "For a newly submitted job, node N9 might be used exclusively as a memory node"
    waits = Ran(half_large(), "disaggregated(scheduler=fcfs)", **jobs)
    assert waits.start["E"] == 100
    assert waits.nodes("E") == [N1, N2, N3, N4]
    # "Section 6.3.4 evaluates the effect of relaxing this requirement"
    starts = Ran(half_large(), "disaggregated(scheduler=fcfs, lenders_compute=yes)", **jobs)
    assert starts.start["E"] == 4
    assert starts.local["E"] == {N3: 16_000, N4: 16_000, N5: 16_000, N9: 16_000}
