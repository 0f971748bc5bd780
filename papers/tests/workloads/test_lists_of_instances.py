"""Lists of disaggregated instances: what becomes of each line, with every option, and what is refused where."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import dlrm_lists as lists
import numpy as np
import pytest
from typer.testing import CliRunner

from unrack.cli import main as command_line
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, TraceError
from unrack.sim.simulate import simulate
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

S = 1_000_000
GB = 1024


def read(text: str = lists.LIST, **options: Any) -> Workload:
    return read_trace(Source("list.csv", text.encode()), **options)


def asked(made: Workload, kind: str, quantity: str) -> dict[str, int]:
    return dict(zip(made.jobs.ids.to_list(), made.jobs.devices[kind, quantity].tolist(), strict=True))


def test_a_list_is_known_by_its_header_and_read_line_by_line() -> None:
    made = read()
    jobs = made.jobs
    assert made.intake.format == "dlrm"
    assert jobs.ids.to_list() == ["a", "c", "d", "b", "e"]
    assert (jobs.submit_us // S).tolist() == [0, 0, 10, 50, 80]
    assert (jobs.work_us // S).tolist() == [200, 60, 70, 50, 120]
    assert jobs.cores.tolist() == [8, 48, 64, 8, 12]
    assert jobs.memory_mb.tolist() == [120 * GB + 512, 240 * GB, 320 * GB, 120 * GB, 60 * GB]
    assert [jobs.app_names[app] for app in jobs.app] == ["x", "x", "y", "x", "x"]
    assert jobs.extra["queue"].to_list() == ["HN", "CN", "CN", "HN", "CN"]
    assert asked(made, "gpu", "devices") == {"a": 1, "b": 1, "c": 0, "d": 0, "e": 0}
    assert asked(made, "links", "mb_s") == {"a": 3125, "b": 6250, "c": 125, "d": 12_500, "e": 125}
    assert asked(made, "spread", "group") == {"a": 1, "b": 1, "c": 0, "d": 2, "e": 1}
    assert asked(made, "spread", "most") == {"a": 2, "b": 2, "c": 0, "d": 4, "e": 2}
    assert ("disk", "capacity_mb") not in jobs.devices


def test_the_account_counts_every_odd_line() -> None:
    intake = read().intake
    assert (intake.read, intake.kept, intake.dropped) == (6, 5, {"ends before it begins": 1})
    assert {rule: intake.changed[rule] for rule in
            ("from before the window", "until the end of the window")} == {
        "from before the window": 2, "until the end of the window": 1,
    }  # fmt: skip
    assert intake.ignored["disk ignored"] == 5
    assert "spread.group up to 2" in intake.header["Columns"]
    assert "HN: 2 instances with 16 cores and 2 GPUs" in intake.header["Columns"]


def test_options_say_how_things_are_asked_for() -> None:
    made = read(gpus="topology", rnic="25 Gb/s", disk="pool", until="5 min", roles="HN")
    assert made.jobs.ids.to_list() == ["a", "b"]
    assert (made.jobs.work_us // S).tolist() == [300, 50]
    assert asked(made, "gpus", "count") == {"a": 1, "b": 1}
    assert ("gpu", "devices") not in made.jobs.devices
    assert asked(made, "links", "mb_s") == {"a": 782, "b": 1563}
    assert asked(made, "disk", "capacity_mb") == {"a": 640 * GB, "b": 640 * GB}
    assert made.intake.dropped == {"other roles": 3, "ends before it begins": 1}
    assert "disk ignored" not in made.intake.changed
    assert set(read(leave_out=["links", "spread", "gpus"]).jobs.devices) == set()
    assert set(read(leave_out="links,spread").jobs.devices) == {("gpu", "devices")}
    assert asked(read(roles=["CN"]), "spread", "group") == {"c": 0, "d": 2, "e": 1}


def test_without_disaggregation_the_cores_go_where_the_gpus_are() -> None:
    """App x: c (48 cores, to 60 s) beside a alone until 50 s and beside a and b from then on; e (12) from 80 s on."""
    made = read(monolithic=True)
    jobs = made.jobs
    assert jobs.ids.to_list() == ["a", "d", "b"]  # y has no instance with a GPU
    of_a = 8 + np.ceil((48 * 50 + 24 * 10 + 6 * 20 + 12 * 100) / 200)
    of_b = 8 + np.ceil((24 * 10 + 6 * 20) / 50)
    assert jobs.cores.tolist() == [of_a, 64, of_b]
    assert jobs.memory_mb[2] == 120 * GB + np.ceil((120 * GB * 10 + 30 * GB * 20) / 50)
    assert made.intake.dropped == {"ends before it begins": 1, "joined to instances with GPUs": 2}
    assert "0.00% of the core-hours" in made.intake.header["Columns"]


def test_what_does_not_fit_on_a_server_becomes_several_with_a_gpu_each() -> None:
    made = read(monolithic=True, server_cores=12, disk="pool")
    assert made.jobs.ids.to_list() == ["a.1", "a.2", "a.3", "d", "b.1", "b.2"]
    assert made.jobs.cores.tolist() == [10, 10, 10, 64, 8, 8]
    assert made.jobs.devices["gpu", "devices"].tolist() == [1, 1, 1, 0, 1, 1]
    assert made.jobs.devices["disk", "capacity_mb"][0] == np.ceil(640 * GB / 3)
    assert made.intake.changed["split over servers"] == 2


def test_a_service_asks_for_as_many_cores_with_and_without_disaggregation() -> None:
    text = lists.HEADER + "".join(
        [lists.line(f"h{i}", "HN", "x", 0, 1, created=0, deleted=100) for i in range(3)]
        + [lists.line(f"c{i}", "CN", "x", 30, created=0, deleted=100) for i in range(10)]
    )
    assert read(text, monolithic=True).jobs.cores.tolist() == [101, 101, 101]  # the one core of an instance with none


def test_cores_beside_no_gpu_are_left_out_and_told() -> None:
    text = lists.HEADER + lists.line("h", "HN", "x", 1, 1, created=0, deleted=50) + (
        lists.line("c", "CN", "x", 10, created=0, deleted=100))  # fmt: skip
    made = read(text, monolithic=True)
    assert made.jobs.cores.tolist() == [11]
    assert "50.00% of the core-hours" in made.intake.header["Columns"]


@pytest.mark.parametrize(
    ("changes", "line", "field", "want"),
    [
        ({"role": "XN"}, 2, "role", "CN or HN"), ({"most": 0}, 2, "max_instance_per_node", "1 or more"),
        ({"most": -2}, 2, "max_instance_per_node", "-1 to"), ({"cores": "many"}, 2, "cpu_request", "a number"),
        ({"cores": ""}, 2, "cpu_request", "a number"), ({"gpus": 0.5}, 2, "gpu_request", "a whole number"),
        ({"rdma": -1}, 2, "rdma_request", "0 or more"), ({"created": -5}, 2, "creation_time", "0 or more"),
        ({"gb": "x"}, 2, "memory_request", "a number"), ({"app": ""}, 2, "app_name", "a name"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_with_its_line(
    changes: dict[str, Any], line: int, field: str, want: str
) -> None:
    row = {"name": "a", "role": "HN", "app": "x", "cores": 8, "gpus": 1, "created": 1, "deleted": 5, **changes}
    with pytest.raises(TraceError) as caught:
        read(lists.HEADER + lists.line(**row), strict=True)  # type: ignore[arg-type]  # one value is wrong on purpose
    assert (caught.value.line, caught.value.field) == (line, field)
    assert want in caught.value.want


@pytest.mark.parametrize(
    "options",
    [{"roles": "XN"}, {"roles": []}, {"gpus": "nodes"}, {"rnic": "fast"}, {"rnic": 0}, {"disk": "yes"},
     {"until": "never"}, {"monolithic": 1}, {"monolithic": True, "roles": "HN"}, {"server_cores": 128},
     {"monolithic": True, "server_cores": 0}, {"leave_out": ["cores"]}, {"gpu": "pool"}],
)  # fmt: skip
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read(format="dlrm", **options)


def test_a_list_without_any_time_needs_an_end() -> None:
    text = lists.HEADER + lists.line("h", "HN", "x", 1, 1)
    with pytest.raises(InputError, match="until"):
        read(text)
    assert read(text, until="1 h").jobs.work_us.tolist() == [3600 * S]
    with pytest.raises(InputError):
        read(lists.HEADER)
    assert len(read(lists.HEADER, until=5)) == 0
    assert len(read(lists.HEADER, until=5, monolithic=True, server_cores=4)) == 0


def test_the_command_shows_roles_and_gpus_and_ends_with_2_on_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "list.csv"
    path.write_text(lists.LIST)
    shown = CliRunner().invoke(command_line.app, ["trace", "info", str(path), "--json", "-o", "roles=HN,CN"])
    contents = json.loads(shown.output)
    assert contents["format"] == "dlrm"
    assert "HN: 2 instances" in contents["header"]["Columns"]
    made = tmp_path / "made.swf"
    assert CliRunner().invoke(command_line.app, ["trace", "convert", str(path), str(made)]).exit_code == 0
    path.write_text(lists.LIST.replace("b,HN", "b,ZN"))
    monkeypatch.setattr(sys, "argv", ["unrack", "trace", "info", str(path)])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 2
    words = " ".join(capsys.readouterr().err.split())
    for part in ("line 3", "role", "'ZN'", "CN or HN"):
        assert part in words


def test_instances_run_on_pooled_gpus_and_are_kept_apart() -> None:
    cluster = Cluster.from_dict({
        "nodes": [{"count": 2, "cores": 96, "memory": "2 TB"}], "spread": {"groups": 2},
        "pools": [{"kind": "gpu", "count": 4, "quantities": {"devices": 1}}],
    })  # fmt: skip
    result = simulate(cluster, read(leave_out=["links"]), "easy")
    assert result.jobs["state"].to_list() == ["finished"] * 5
    groups = {"group": result.table("claims")["quantity"].unique().to_list()}
    assert groups == {"group": ["group"]}


def test_the_published_half_is_read_whole(data: Path) -> None:
    path = data / "gpu" / "disaggregated-dlrm-half.csv.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    made = read_trace(path)
    jobs = made.jobs
    assert len(jobs) == made.intake.read == 13_254
    assert made.intake.dropped == {}
    assert (made.intake.changed["from before the window"], made.intake.changed["until the end of the window"]) == (
        3861, 4617,
    )  # fmt: skip
    assert int(jobs.devices["gpu", "devices"].sum()) == 3518
    assert (len(jobs.app_names), int(jobs.devices["spread", "group"].max())) == (78, 78)
    assert jobs.work_us.max() == round(2_677_541 * S)
    alone = read_trace(path, monolithic=True)
    assert len(alone) == 3518
    assert peak_cores(alone) == pytest.approx(peak_cores(made), rel=0.08)


def peak_cores(made: Workload) -> int:
    jobs = made.jobs
    times = np.concatenate([jobs.submit_us, jobs.submit_us + jobs.work_us])
    change = np.concatenate([jobs.cores, -jobs.cores])
    return int(np.cumsum(change[np.lexsort((change, times))]).max())
