"""GPUs of one socket or two, and neighbours: what profiles say and the simulator does."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_pretend import tiny

from unrack_papers.amaral.pairs import (
    APART,
    BESIDE_PACKED,
    BESIDE_SPREAD,
    FASTER,
    FIG_10,
    MEASURED,
    PACKED,
    PROFILE,
    SIZES,
    SLOWER,
    SPREAD,
    group_beside,
    run_s,
    two_beside_two,
)

FACTORS = "kind,application,other,factor\napart,alexnet/1,,1.4\nbeside,alexnet/1,googlenet/4,1.2\n"
HEAD = "kind,application,batch_size,gpus,other_application,other_batch_size,other_gpus,placement,time_s\n"
TIMES = HEAD + (
    "solo,alexnet,1,2,,,,intra,100\nsolo,alexnet,1,2,,,,inter,130\nsolo,alexnet,1,1,,,,intra,80\n"
    "collocation,alexnet,1,1,alexnet,1,1,,80\ncollocation,alexnet,1,2,alexnet,1,2,,125\n"
)


def test_a_job_takes_as_much_longer_apart_and_beside_another_as_its_profile_says(tmp_path: Path) -> None:
    path = tmp_path / "factors.csv"
    path.write_text(FACTORS)
    alone = run_s(str(path), PACKED, "alexnet/1")
    assert alone == pytest.approx(1000)
    assert run_s(str(path), SPREAD, "alexnet/1") == pytest.approx(1400)
    assert run_s(str(path), SPREAD, "alexnet/1", "googlenet/4") == pytest.approx(1.2 * 1400)
    assert run_s(str(path), PACKED, "alexnet/1", "googlenet/4") == pytest.approx(1000)
    assert run_s(str(path), SPREAD, "googlenet/4", "alexnet/1") == pytest.approx(1000)


@pytest.mark.long
def test_the_simulator_shows_what_the_text_says_of_pack_and_spread() -> None:
    found = tiny("gpu-pack-spread")
    for size, factor in FIG_10.items():
        own = found.at(("AlexNet", size, APART.name), FASTER.label)
        assert own is not None
        assert own.mean == pytest.approx(factor, abs=1e-6)


@pytest.mark.long
def test_neighbours_count_where_jobs_are_spread_and_not_where_each_has_a_socket() -> None:
    found = tiny("gpu-collocation")
    for other in SIZES:
        for own in SIZES:
            profile, spread, packed = (
                found.at((group_beside(other), own, row.name), SLOWER.label)
                for row in (PROFILE, BESIDE_SPREAD, BESIDE_PACKED)
            )
            assert profile is not None
            assert spread is not None
            assert packed is not None
            assert spread.mean == pytest.approx(profile.mean, abs=1e-4)
            assert packed.mean == pytest.approx(0)
            assert found.at((group_beside(other), own, MEASURED.name), SLOWER.label) is None


def test_pairs_on_two_gpus_each_are_measured_against_the_least_time_alone_on_two(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text(TIMES)
    assert two_beside_two(str(path), "alexnet/1", "alexnet/1") == pytest.approx(1.25)
    assert two_beside_two(str(path), "alexnet/1", "alexnet/4") is None
    assert two_beside_two(None, "alexnet/1", "alexnet/1") is None


def test_the_measured_file_agrees_with_the_text_on_pack_and_spread(data: Path) -> None:
    times = str(data / "gpu" / "minsky-caffe-times.csv")
    found = tiny("gpu-pack-spread", times=times).at(("AlexNet", 1, APART.name), FASTER.label)
    assert found is not None
    assert found.mean == pytest.approx(159.115 / 127.415, abs=1e-4)
    assert two_beside_two(times, "alexnet/1", "alexnet/1") == pytest.approx(158.935 / 127.415)
