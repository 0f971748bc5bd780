import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from unrack.metric.kinds.pool import pool_steps, stranded_steps
from unrack.steps import levels

uses = st.lists(
    st.tuples(
        st.integers(0, 8), st.integers(0, 6), st.sets(st.integers(0, 5), min_size=1, max_size=3), st.integers(0, 3)
    ),
    max_size=12,
)
SCHEMA = {"start_s": pl.Float64, "end_s": pl.Float64, "kind": pl.String, "devices": pl.List(pl.Int32),
          "composition": pl.Int32}  # fmt: skip


def shares_of(asks):
    rows = [(float(start), float(start + long), "nvme", sorted(ids), life) for start, long, ids, life in asks]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def running(rows, time):
    return [row for row in rows if row[0] <= time < row[1]]


@given(uses)
def test_the_steps_of_a_pool_count_what_is_in_use_at_every_time(asks):
    shares = shares_of(asks)
    frame = pool_steps(shares, "nvme", 6)
    times = frame["time_s"].to_list()
    assert times == sorted(set(times))
    for time in np.arange(0, 16, 0.5):
        row = frame.filter(pl.col("time_s") <= time).tail(1)
        now = running(shares.rows(), time)
        want = (len({device for own in now for device in own[3]}), len({own[4] for own in now}), len(now))
        assert (row.rows()[0][1:] if len(row) else (0, 0, 0)) == want
    for earlier, later in zip(frame.rows(), frame.rows()[1:], strict=False):
        assert earlier[1:] != later[1:]


def test_a_job_that_joins_as_another_leaves_keeps_the_composition_in_use():
    asks = [(0, 5, {0, 1}, 7), (5, 3, {0, 1}, 7), (5, 0, {2}, 8)]
    frame = pool_steps(shares_of(asks), "nvme", 6)
    assert frame.rows() == [(0.0, 2, 1, 1), (8.0, 0, 0, 0)]


def test_a_share_without_an_end_is_held_for_ever_and_other_kinds_do_not_count():
    shares = shares_of([(1, 2, {0}, 0), (2, 2, {3}, 1)]).with_columns(
        end_s=pl.Series([None, 4.0], dtype=pl.Float64), kind=pl.Series(["nvme", "gpu"])
    )
    assert pool_steps(shares, "nvme", 4).rows() == [(1.0, 1, 1, 1)]
    assert pool_steps(shares, "fpga", 0).is_empty()
    assert pool_steps(shares.head(0), "nvme", 4).columns == ["time_s", "devices_used", "compositions", "sharers"]


@given(
    uses,
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 6), st.integers(0, 2), st.integers(1, 3)), max_size=10),
    st.integers(1, 3),
)
def test_stranded_devices_are_free_and_no_node_in_reach_has_cores_for_them(asks, holds, least):
    cores, pools = np.array([4, 6, 2]), [(0, 4, np.array([True, True, False])), (4, 2, np.array([False, False, True]))]
    shares = shares_of(asks)
    rows, held = [], []
    for start, long, node, asked in holds:
        before = [own for own in held if own[2] == node]
        if all(
            sum(own[3] for own in running([*before, (start, start + long, node, asked)], t)) <= cores[node]
            for t in range(16)
        ):
            held.append((start, start + long, node, asked))
            rows.append((float(start), float(start + long), node, 1, asked))
    placements = pl.DataFrame(
        rows, schema=["start_s", "end_s", "first_node", "nodes", "cores_per_node"], orient="row"
    ).cast({"start_s": pl.Float64, "end_s": pl.Float64})
    frame = stranded_steps(shares, placements, pools, cores, least)
    if not asks and not rows:
        assert frame.is_empty()
        return
    for time in np.arange(frame["time_s"].item(0), 16, 0.5):
        used = {device for own in running(shares.rows(), time) for device in own[3]}
        free = cores - [sum(own[3] for own in running(held, time) if own[2] == node) for node in range(3)]
        want = 0
        for first, count, reach in pools:
            if not (free[reach] >= least).any():
                want += len(set(range(first, first + count)) - used)
        assert frame.filter(pl.col("time_s") <= time)["stranded"].item(-1) == want


def test_levels_of_several_things_are_kept_apart():
    who, when, level = levels(np.array([2, 1, 2]), np.array([0.0, 1.0, 1.0]), np.array([3.0, 2.0, 2.0]))
    assert list(zip(who.tolist(), when.tolist(), level.tolist(), strict=True)) == [
        (1, 1.0, 1), (1, 2.0, 0), (2, 0.0, 1), (2, 1.0, 2), (2, 2.0, 1), (2, 3.0, 0),
    ]  # fmt: skip
