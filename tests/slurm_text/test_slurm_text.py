from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.slurm_text.hostlists import compress, expand
from unrack.slurm_text.job_ids import JOB_STATES, job_id, job_state, node_words
from unrack.slurm_text.tres import gres, licences, memory, tres
from unrack.slurm_text.values import moment_s, records, span_s

NAMES = st.from_regex(r"[a-z]{1,3}-?[0-9]{0,4}[a-z]{0,2}", fullmatch=True)
ANY = st.text(st.sampled_from("abn019[]-,:.%_+=/() KMGnc"), max_size=14)


@given(st.lists(NAMES, min_size=1, max_size=30))
def test_a_list_of_hosts_that_was_written_reads_as_the_same_names(names: list[str]) -> None:
    assert expand(compress(names)) == names


@given(st.integers(0, 5), st.integers(0, 1200), st.integers(1, 300))
def test_a_range_of_hosts_is_one_pair_of_brackets(width: int, first: int, count: int) -> None:
    names = [f"n{number:0{width}}" for number in range(first, first + count)]
    assert expand(compress(names)) == names
    assert compress(names).count("[") <= 1


@given(ANY)
def test_text_of_any_kind_is_read_or_is_a_value_error(text: str) -> None:
    for read in (expand, span_s, moment_s, memory, tres, gres, licences, job_id, job_state):
        with suppress(ValueError):
            read(text)


@given(st.integers(0, 10**8))
def test_a_span_that_was_written_reads_as_the_same_seconds(seconds: int) -> None:
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    assert span_s(f"{days}-{text}" if days else text) == seconds


@given(st.integers(1, 2**32), st.sampled_from(["n", "c", ""]))
def test_an_amount_of_memory_reads_as_it_was_written(mb: int, of: str) -> None:
    said = memory(f"{mb}M{of}")
    assert said is not None
    assert (said.mb, said.per) == (mb, {"n": "node", "c": "core", "": "job"}[of])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cn[001-003,105]", ["cn001", "cn002", "cn003", "cn105"]),
        ("r[0-1]n[08-09],login", ["r0n08", "r0n09", "r1n08", "r1n09", "login"]),
        ("a1,a1", ["a1", "a1"]),
        ("gpu[1-2]-ib", ["gpu1-ib", "gpu2-ib"]),
    ],
)
def test_lists_of_hosts_read_as_slurm_reads_them(text: str, names: list[str]) -> None:
    assert expand(text) == names


def test_no_name_goes_on_behind_a_bracket_as_slurm_refuses_such_lists() -> None:
    assert compress(["g1-ib", "g2-ib", "n1", "n2"]) == "g1-ib,g2-ib,n[1-2]"


@pytest.mark.parametrize("text", ["", "a[", "a]", "a[1-", "a[3-1]", "a[x]", "a[[1]]", "a,,b", "a b", "n[1-99999999]"])
def test_a_list_of_hosts_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r" is not a list of "):  # what is wanted stands behind that
        expand(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784), ("01:00:00", 3600), ("05:30", 330), ("90", 5400), ("3-12", 302400), ("2-01:30", 178200),
     ("00:00:01.5", 1.5), ("UNLIMITED", None), ("Partition_Limit", None), ("INVALID", None)],
)  # fmt: skip
def test_spans_of_time_read_as_slurm_means_them(text: str, seconds: float | None) -> None:
    assert span_s(text) == seconds


@pytest.mark.parametrize("text", ["1234567_12+", "101_[1-5", "abc", "", "101_", "101_[1,3,...]", "101_[1-99999999]"])
def test_a_name_of_a_job_that_was_cut_off_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"101|members"):
        job_id(text)


@pytest.mark.parametrize("name", JOB_STATES)
def test_a_state_is_known_in_full_short_and_with_a_reason(name: str) -> None:
    assert job_state(name) == job_state(JOB_STATES[name]) == job_state(f"{name.lower()} by 1000") == name


def test_the_words_of_a_nodes_state_are_told_apart() -> None:
    assert node_words("DOWN*+DRAIN") == {"DOWN", "DRAIN", "NOT_RESPONDING"}
    assert node_words("IDLE+CLOUD+POWERED_DOWN") == {"IDLE", "CLOUD", "POWERED_DOWN"}


def test_resources_with_types_are_not_counted_twice() -> None:
    assert tres("gres/gpu:a100=2,gres/gpu:v100=1,gres/gpu=3").gres == {"gpu": 3}
    assert tres("gres/gpu:a100=2,gres/gpu:v100=1").gres == {"gpu": 3}
    assert gres("gpu:a100:2(IDX:0-1),gpu:v100:1").gres == {"gpu": 3}
    assert gres("gpu:a100").types == {"gpu": {"a100": 1}}
    assert tres("mem=1.5T,node=1").mem_mb == 1572864


def test_values_with_blanks_do_not_end_a_record() -> None:
    text = "JobId=1 JobName=a b c UserId=ann(1)\n   Command=/run --x=1 y\n   JobState=RUNNING\n\nJobId=2 JobName=x\n"
    first, second = records(text, "JobId")
    assert first.fields["JobName"] == "a b c"
    assert first.fields["JobState"] == "RUNNING"
    assert (second.line, second.fields["JobId"]) == (5, "2")
