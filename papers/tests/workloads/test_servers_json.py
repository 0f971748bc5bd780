from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.errors import InputError, TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source, traces_found
from unrack.workload.job import Workload
from unrack.workload.tier_asks import NO_CEILING
from unrack_papers.workloads.server_generator import FOREVER_S

ONE: dict[str, Any] = {"cores": 2, "mem": 4096, "local_SLA": 409, "remote_SLA": 5000}


def read(content: object, **options: Any) -> Workload:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    return read_trace(Source("in.json", text.encode()), **options)


def test_the_published_servers_are_read_as_they_stand(data: Path) -> None:
    path = data / "slo" / "azure-1000-servers.json"
    raw = json.loads(path.read_text())["servers"]
    made = read_trace(path)
    jobs = made.jobs
    assert made.intake.format == "servers"
    assert len(made) == 1000
    assert made.intake.dropped == {}
    assert jobs.slo is not None
    read_back = zip(jobs.cores, jobs.memory_mb, jobs.slo.floor_mb, jobs.slo.ceiling_mb, strict=True)
    assert [tuple(map(int, row)) for row in read_back] == [
        (one["cores"], one["mem"], one["local_SLA"], one["remote_SLA"]) for one in raw
    ]
    assert not jobs.submit_us.any()
    assert (jobs.work_us == FOREVER_S * 10**6).all()
    assert (jobs.slo.floor_mb == jobs.memory_mb // 10).all(), "the generator's rule for floors is theirs"


def test_a_server_may_say_who_it_is_when_it_comes_and_what_it_must_not_have() -> None:
    entry = {"id": "x", "arrival": 60, "lifetime": 900, "group": "g", "spread": "rack", "forbidden": ["far", "near"]}
    made = read({"pools": [{"servers": [{}]}], "servers": [{**ONE, **entry}, {"id": "y", "cores": 1, "mem": 10}]})
    jobs = made.jobs
    assert jobs.ids.to_list() == ["y", "x"], "in order of arrival"
    demand = jobs.job(1).demand
    assert (jobs.submit_us.tolist(), jobs.work_us.tolist()) == ([0, 60_000_000], [FOREVER_S * 10**6, 900_000_000])
    assert (demand.group, demand.spread, demand.forbidden) == ("g", "rack", ("far", "near"))
    assert jobs.slo is not None
    assert jobs.slo.ceiling_mb.tolist() == [NO_CEILING, 5000]


def test_the_lifetime_and_the_unit_of_memory_may_be_said() -> None:
    jobs = read({"servers": [ONE, {**ONE, "lifetime": 5}]}, lifetime="2 h", memory_unit="GB").jobs
    assert jobs.work_us.tolist() == [7_200_000_000, 5_000_000]
    assert jobs.memory_mb.tolist() == [4096 * 1024] * 2
    with pytest.raises(InputError, match="option lifetime: got 'soon'"):
        read({"servers": [ONE]}, lifetime="soon")


@pytest.mark.parametrize(
    ("change", "field", "want"),
    [
        ({"cores": 0}, "cores", "1 or more"),
        ({"cores": 1.5}, "cores", "a whole number"),
        ({"cores": "four"}, "cores", "a number"),
        ({"cores": None}, "cores", "a number"),
        ({"mem": -4096}, "mem", "0 or more"),
        ({"mem": 2**70}, "mem", "a number that fits"),
        ({"mem": {"mb": 4}}, "mem", "a list of names"),
        ({"local_SLA": -1}, "local_SLA", "0 or more"),
        ({"local_SLA": 5000}, "local_SLA", "at most its memory of 4096 MB"),
        ({"remote_SLA": -1}, "remote_SLA", "0 or more"),
        ({"id": "a"}, "id", "each id once"),
        ({"group": "g"}, "spread", "'rack', as the others of group 'g'"),
        ({"spread": "rack"}, "spread", "a group beside it"),
        ({"forbidden": [3]}, "forbidden", "a list of names"),
        ({"tasks": 2}, "tasks", "1: what asks for tiers of memory is one server"),
        ({"arrival": -1}, "arrival", "0 or more"),
        ({"lifetime": -1}, "lifetime", "0 or more"),
    ],
)
def test_a_wrong_server_is_refused_with_the_line_it_begins_on(change: dict[str, Any], field: str, want: str) -> None:
    first = {"id": "a", "odd": 'a "[{" in text', **ONE, "group": "g", "spread": "rack", "forbidden": ["x"]}
    text = json.dumps({"pools": [{"cores": [1]}], "servers": [first, {**ONE, **change}], "clusters": [{}]}, indent=1)
    second = text[: text.index('"x"')].count("\n") + 1 + 3  # after the ends of the list and the object
    with pytest.raises(TraceError) as caught:
        read(text)
    assert (caught.value.line, caught.value.field) == (second, field)
    assert want in caught.value.want


def test_a_byte_order_mark_does_not_make_lines_of_servers() -> None:
    text = json.dumps({"servers": [ONE, {**ONE, "cores": 0}, ONE, ONE, ONE]}, indent=1)
    with pytest.raises(TraceError, match="line 9, cores: got 0"):
        read("\ufeff" + text)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("[1, 2]", "no object"),
        ('{"pools": []}', "an object with 'pools'"),
        ('{"servers": []}', "an empty list"),
        ('{"servers": 3}', "3"),
        ('{"servers": [3]}', "3"),
        ('{"servers": [{"mem": 4}]}', "nothing"),
        ('{"servers": [{"cores": 4}]}', "nothing"),
        ('{"servers": [{"cores": NaN}]}', "NaN"),
        ('{"servers": [', "no JSON"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_list_of_servers_is_refused_in_words(text: str, got: str) -> None:
    with pytest.raises(TraceError, match=r"^in\.json") as caught:
        read(text)
    assert got in caught.value.got


@given(st.data())
def test_a_mutated_file_is_read_or_refused_in_words(data: st.DataObject) -> None:
    text = json.dumps({"servers": [ONE, {**ONE, "id": "b", "group": "g", "forbidden": ["x"]}]})
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 8)))
        piece = data.draw(
            st.sampled_from([*'{}[],:"-.e9\\', "", "null", "true", "1e400", "[[]]", '"mem"', '"servers"'])
        )
        text = text[:start] + piece + text[end:]
    if not text.strip():
        return
    try:
        made = read_trace(Source("in.json", text.encode()), "servers")
    except InputError:
        return
    assert len(made) == made.intake.kept
    assert (made.jobs.cores >= 1).all()


def test_json_in_the_folder_of_traces_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cloud.json").write_text(json.dumps({"servers": [ONE]}))
    monkeypatch.setenv("UNRACK_TRACES", str(tmp_path))
    assert traces_found() == ["cloud.json"]
    assert read_trace("cloud.json").name == "cloud"
