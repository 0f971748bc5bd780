"""Whatever Slurm answers, reading it ends with an answer or the documented error."""

from __future__ import annotations

import copy
import functools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from test_layouts import NODES, RESOURCES, waiting

from unrack.live.slurm.answers.jobs import jobs_of
from unrack.live.slurm.answers.nodes import nodes_of
from unrack.live.slurm.answers.shown import licences_in, partitions_in, reservations_in
from unrack.live.slurm.commands.batch import attributed
from unrack.live.slurm.commands.listing import JOB_FIELDS, as_records, rows

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
RUNNING = waiting(job_state=["RUNNING"], nodes="c[1-2]", job_resources=RESOURCES["v0.0.41"], array_job_id=None)
NODE = {"name": "c1", "cpus": 8, "real_memory": 7, "state": ["IDLE"], "partitions": ["main"], "gres": "gpu:1"}


@given(JSON)
def test_any_json_is_read_or_refused(answer: Any) -> None:
    for reader in (functools.partial(jobs_of, nodes=NODES), nodes_of):
        try:
            reader(answer)
        except ValueError:
            continue


@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys((*waiting(), "nodes", "tres_alloc_str"), JSON))))
def test_records_with_known_keys_and_any_values_stop_no_reading(records: list[Any]) -> None:
    jobs, unreadable = jobs_of({"jobs": [*records, waiting(job_id=10**9)]}, NODES)
    assert jobs[-1].id == 10**9
    assert len({job.id for job in jobs}) == len(jobs) <= len(records) + 1
    assert len(unreadable) <= len(records)


@given(st.sampled_from(sorted(RUNNING)), JSON)
def test_one_strange_value_never_frees_the_nodes_of_a_running_job(key: str, value: Any) -> None:
    record = {**copy.deepcopy(RUNNING), key: value}
    jobs, _ = jobs_of({"jobs": [record]}, NODES)
    if key not in ("nodes", "job_state"):
        assert [set(job.holds) for job in jobs] == [{"c1", "c2"}]


@given(st.sampled_from(sorted(NODE)), JSON)
def test_one_strange_node_stops_no_other(key: str, value: Any) -> None:
    nodes, unreadable = nodes_of({"nodes": [{**NODE, key: value}, {**NODE, "name": "c2"}]})
    assert "c2" in [node.name for node in nodes]
    assert len(nodes) + len(unreadable) <= 2


@given(st.text(), st.lists(st.text(min_size=1)))
def test_any_printed_text_is_read_or_refused(printed: str, marks: list[str]) -> None:
    for reader, key in ((licences_in, "License"), (partitions_in, "Partition"), (reservations_in, "Reservation")):
        reader(printed)
        reader(f"{key}Name={printed}")
    assert len(attributed(printed, marks)) == len(marks)


@given(st.lists(st.lists(st.text(), min_size=len(JOB_FIELDS), max_size=len(JOB_FIELDS)), max_size=3))
def test_words_of_users_never_make_rows_or_fields_of_a_listing(words: list[list[str]]) -> None:
    between = "~separator"
    printed = "".join("".join(field + between for field in row) + "\n" for row in words)
    if any(between in field or "~" in field for row in words for field in row):
        return
    found = rows(printed.encode("utf-8", "replace"), JOB_FIELDS, between)
    assert len(found) == len(words)
    jobs_of(as_records(found), NODES)


@given(st.binary())
def test_any_bytes_are_a_listing_or_refused(printed: bytes) -> None:
    try:
        rows(printed, ("jobid", "name"), "~x")
    except ValueError:
        return
