"""How many servers a service takes: by hand on tiny lists, with one server fewer, and on the published half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flow_pretend import NAME, pretended

from unrack.errors import InputError
from unrack_papers.execution import execute
from unrack_papers.pages.page import judged
from unrack_papers.reproduction import Numbers, Task
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import Verdict
from unrack_papers.workloads.dlrm import read_dlrm
from unrack_papers.yang.fleets import Servers, alive, fleets, peak_us, placed, smallest
from unrack_papers.yang.serving import POLICY, ROWS

HEADER = (
    "instance_sn,role,app_name,cpu_request,gpu_request,rdma_request,memory_request,disk_request,max_instance_per_node,"
    "creation_time,scheduled_time,deletion_time\n"
)


def listed(folder: Path, rows: list[tuple[str, str, int, int, int, int]]) -> str:
    """Rows of role, app, cores, most, created, deleted."""
    lines = [
        f"i{i},{role},{app},{cores},{int(role == 'HN')},1,1,1,{most},{created},{created},{deleted}\n"
        for i, (role, app, cores, most, created, deleted) in enumerate(rows)
    ]
    path = folder / "list.csv"
    path.write_text(HEADER + "".join(lines))
    return str(path)


def measured(path: str, gpus: int = 2, cores: int = 32, cpu_cores: int = 64) -> dict[str, Numbers]:
    keys = {"trace": path, "gpus": gpus, "cores": cores, "cpu_server_cores": cpu_cores}
    return {str(row.cluster): own for row, own in zip(ROWS, fleets(Task(keys, 0, ROWS, None, ())), strict=True)}


def test_servers_and_what_is_stranded_by_hand(tmp_path: Path) -> None:
    """Four instances of 4 cores and a GPU, and 104 cores without: 30 cores a monolith, of which a server holds one."""
    own = measured(listed(tmp_path, [("HN", "x", 4, -1, 0, 9)] * 4 + [("CN", "x", 26, -1, 0, 9)] * 4))
    whole, apart, mixed = own["monolithic"], own["apart"], own["mixed"]
    assert (whole["gpu_servers"], whole["cpu_servers"]) == (4, 0)
    assert (whole["idle_gpus"], whole["stranded_gpus"]) == (0.5, 0.5)
    assert whole["stranded_cores"] == whole["idle_cores"] == pytest.approx(2 / 32)
    assert (apart["gpu_servers"], apart["cpu_servers"]) == (2, 2)  # two of 26 cores on 64
    assert (apart["stranded_gpus"], apart["stranded_cores"]) == (
        0,
        pytest.approx((2 * 24 + 2 * 12) / (2 * 32 + 2 * 64)),
    )
    assert apart["change_stranded_gpus"] == -1
    assert mixed["cpu_servers"] == 2  # 24 free cores beside two GPUs are too few for 26
    assert whole["change_stranded_cores"] is None


def test_instances_without_gpus_fill_servers_with_gpus_first(tmp_path: Path) -> None:
    own = measured(listed(tmp_path, [("HN", "x", 4, -1, 0, 9)] * 4 + [("CN", "x", 24, -1, 0, 9)] * 4))
    assert (own["apart"]["cpu_servers"], own["mixed"]["cpu_servers"]) == (2, 1)
    assert own["mixed"]["stranded_cores"] == pytest.approx(16 / 128)


def test_limits_take_more_servers(tmp_path: Path) -> None:
    own = measured(listed(tmp_path, [("HN", "x", 4, 1, 0, 9)] * 4))
    assert (own["apart"]["gpu_servers"], own["apart"]["idle_gpus"], own["apart"]["stranded_gpus"]) == (4, 0.5, 0)


def test_the_peak_is_when_most_gpus_are_asked_for(tmp_path: Path) -> None:
    path = listed(tmp_path, [("HN", "x", 4, -1, 0, 5), ("HN", "x", 4, -1, 5, 20), ("HN", "x", 4, -1, 8, 9)])
    jobs = read_dlrm(path, gpus="topology").jobs
    assert peak_us(jobs) == 8_000_000
    assert alive(jobs, 8_000_000).ids.to_list() == ["i1", "i2"]


def test_one_server_fewer_is_too_few(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    rows = [("HN", f"a{random.integers(4)}", int(random.integers(1, 20)), int(random.integers(1, 4)), 0, 9)
            for _ in range(40)]  # fmt: skip
    jobs = alive(read_dlrm(listed(tmp_path, rows), gpus="topology", leave_out="links").jobs, 0)
    fleet = smallest(jobs, Servers(32, 3, 0), POLICY)
    for count, lost in ((fleet.gpu_servers, False), (fleet.gpu_servers - 1, True)):
        result = placed(jobs, [Servers(32, 3, count)], POLICY)
        assert bool(result.jobs["start_s"].is_null().any()) == lost
    assert fleet.gpu_servers >= max(-(-int(jobs.cores.sum()) // 32), -(-40 // 3))


def test_an_instance_larger_than_a_server_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="99 cores"):
        measured(listed(tmp_path, [("HN", "x", 4, -1, 0, 9), ("CN", "y", 99, -1, 0, 9)]))


def test_without_the_list_it_says_what_is_missing() -> None:
    one = REPRODUCTIONS[NAME]
    with pytest.raises(InputError, match="no --trace"):
        execute(one, one.defaults)


def test_numbers_like_the_papers_bear_out_every_claim() -> None:
    assert {finding.verdict for _, finding in judged(pretended())} == {Verdict.AGREES}


@pytest.mark.slow
def test_the_published_half_takes_a_sixth_of_the_gpu_servers_or_less(data: Path) -> None:
    path = data / "gpu" / "disaggregated-dlrm-half.csv.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    own = measured(str(path), 8, 192, 192)
    servers = {design: values["gpu_servers"] for design, values in own.items()}
    assert servers == {"monolithic": 1226, "apart": 221, "mixed": 221}
    assert own["mixed"]["stranded_gpus"] == pytest.approx(0.025, abs=0.002)
