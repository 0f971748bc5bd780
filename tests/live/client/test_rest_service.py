"""The REST service: a real one of 22.05 for what that can do, and one that plays a newer version for the rest."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from slurm_bed import Bed
from test_layouts import waiting

from unrack.errors import InputError
from unrack.live.slurm.client import UnreachableError
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.constraints import Partition, Reservation
from unrack.live.slurm.orders import HoldBack, JobKey, Place, Release, RequeueHeld
from unrack.live.slurm.rest.client import RestClient
from unrack.live.slurm.rest.connection import Connection, Token


@pytest.fixture
def served(new_bed: Callable[..., Bed], tmp_path: Path) -> Iterator[tuple[Bed, RestClient, str, Path]]:
    """A cluster, a client of its slurmrestd, the address of that, and the file of the token."""
    if shutil.which("slurmrestd", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip("slurmrestd not found: apt-get install slurmrestd slurm-wlm-jwt-plugin")
    key, token = tmp_path / "key", tmp_path / "token"
    key.write_bytes(secrets.token_bytes(32))
    key.chmod(0o600)
    bed = new_bed(nodes=3, licences={"matlab": 4}, extra=("AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={key}"))
    token.write_text(bed.scontrol("token", "username=root", "lifespan=600"))
    address = f"127.0.0.1:{bed.last_port}"
    process = subprocess.Popen(
        ["/usr/sbin/slurmrestd", "-a", "rest_auth/jwt", "-s", "openapi/v0.0.38", address],
        env={**bed.env, "SLURM_JWT": "daemon"}, user="nobody", group="nogroup", extra_groups=[],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        client = RestClient(Connection(f"http://{address}", "root", Token(token)))
        bed.wait_until(lambda: _answers(client), what="slurmrestd answers")
        yield bed, client, f"http://{address}", token
    finally:
        process.terminate()
        process.wait()


def _answers(client: RestClient) -> bool:
    try:
        return bool(client.read().nodes)
    except UnreachableError:
        return False


@pytest.mark.live
def test_the_service_and_the_commands_read_the_same(served: tuple[Bed, RestClient, str, Path]) -> None:
    bed, client, _, _ = served
    bed.submit(hold=True, nodes="1-2", mem=10, gres="nvme:2", licenses="matlab:1", comment=b'\xff\n"x', time=5)
    bed.submit(hold=True, array="1-9%2", mem_per_cpu=7)
    running = bed.submit("sleep 60", nodes=2, ntasks=5, mem=100)
    bed.wait_for([running], "RUNNING")
    bed.drain("n3", "its reason")
    rest, commands = client.read(), CommandClient(environment=bed.env).read()
    assert (rest.jobs, rest.nodes, rest.licences) == (commands.jobs, commands.nodes, commands.licences)
    assert not rest.unreadable


@pytest.mark.live
def test_the_service_of_22_05_holds_and_releases_and_refuses_to_place(
    served: tuple[Bed, RestClient, str, Path],
) -> None:
    bed, client, _, _ = served
    job = JobKey(bed.submit("sleep 60", hold=True, mem=10))
    answers = client.carry_out([Place(job, ("n2",)), Release(JobKey(9999)), RequeueHeld(job), Release(job)])
    assert [answer.done for answer in answers] == [False, False, False, True]
    assert "required_nodes" in answers[0].problem
    assert not client.read().jobs[0].is_held


@pytest.mark.live
def test_a_wrong_token_or_a_service_that_is_gone_is_unreachable(
    served: tuple[Bed, RestClient, str, Path], tmp_path: Path
) -> None:
    _, _, address, token = served
    wrong = tmp_path / "wrong"
    wrong.write_text("SLURM_JWT=" + "a" * 40)
    with pytest.raises(UnreachableError) as caught:
        RestClient(Connection(address, "root", Token(wrong)), "v0.0.38").read()
    assert "aaaa" not in str(caught.value)
    with pytest.raises(UnreachableError):
        RestClient(Connection("http://127.0.0.1:1", "root", Token(token)), "v0.0.38").read()


def set_to(number: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": number}


UNSET = {"set": False, "infinite": False, "number": 0}
PARTITION = {
    "name": "main", "partition": {"state": ["UP"]}, "defaults": {"time": UNSET},
    "maximums": {"time": set_to(90), "nodes": set_to(3), "cpus_per_node": UNSET}, "minimums": {"nodes": 1},
}  # fmt: skip
RESERVATION = {"name": "service", "start_time": set_to(60), "end_time": set_to(120), "node_list": "c[1-2]"}


class Newer(BaseHTTPRequestHandler):
    """Plays v0.0.41, as it is described."""

    asked: ClassVar[list[tuple[str, str, Any]]] = []
    state = "PENDING"

    def answer(self, status: int, body: Any) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_GET(self) -> None:
        if "/v0.0.41/" not in self.path:
            return self.answer(404, "no such place")
        job = waiting(job_state=[type(self).state], nodes="c1" if self.state == "RUNNING" else "")
        node = {"name": "c1", "cpus": 8, "real_memory": 9, "state": ["IDLE"]}
        name = self.path.split("/")[3]
        bodies = {"jobs": {"jobs": [job]}, "job": {"jobs": [job]}, "nodes": {"nodes": [node]}, "ping": {},
                  "licenses": {"licenses": [{"LicenseName": "x", "Total": 3, "Used": 1}]},
                  "partitions": {"partitions": [PARTITION]},
                  "reservations": {"reservations": [RESERVATION]}}  # fmt: skip
        return self.answer(200, {"errors": [], "warnings": [], **bodies[name]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Newer.asked.append((self.path, self.headers["X-SLURM-USER-TOKEN"], body))
        error = [{"error": "Invalid job id", "description": "no\nsuch"}] if "999" in self.path else []
        self.answer(500 if error else 200, {"errors": error})

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def newer(tmp_path: Path) -> Iterator[RestClient]:
    Newer.asked.clear()
    Newer.state = "PENDING"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Newer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "token").write_text("SLURM_JWT=abc.def\n")
    yield RestClient(Connection(f"http://127.0.0.1:{server.server_address[1]}", "ann", Token(tmp_path / "token")))
    server.shutdown()
    server.server_close()


def test_a_newer_service_is_told_where_jobs_run(newer: RestClient) -> None:
    reading = newer.read()
    assert [job.id for job in reading.jobs] == [70]
    assert replace(reading.partitions["main"], said="") == Partition("main", "UP", 5400, None, 1, 3, 0)
    assert reading.reservations == (Reservation("service", 60, 120, ("c1", "c2")),)
    orders = [
        Place(JobKey(70, 3), ("c1", "c2"), tasks=4), Release(JobKey(70)), HoldBack(JobKey(70), 1, 3),
        Release(JobKey(999)),
    ]  # fmt: skip
    answers = newer.carry_out(orders)
    assert [answer.problem for answer in answers] == ["", "", "", "Invalid job id no?such"]
    place = {"required_nodes": ["c1", "c2"], "minimum_nodes": 2, "maximum_nodes": 2, "tasks": 4}
    back = {"hold": True, "required_nodes": [], "minimum_nodes": 1, "maximum_nodes": 3}
    assert Newer.asked[:3] == [
        ("/slurm/v0.0.41/job/70_3", "abc.def", place),
        ("/slurm/v0.0.41/job/70", "abc.def", {"hold": False}),
        ("/slurm/v0.0.41/job/70", "abc.def", back),
    ]


def test_a_running_job_is_neither_placed_nor_held_back_over_the_service(newer: RestClient) -> None:
    Newer.state = "RUNNING"
    answers = newer.carry_out([Place(JobKey(70), ("c2",)), HoldBack(JobKey(70)), Place(JobKey(70), ("c1",))])
    assert [answer.done for answer in answers] == [False, False, True]
    assert not Newer.asked


@pytest.mark.parametrize("text", ["", "two words", "a\r\nX-Other: b", "é", "x" * 20_000])
def test_a_token_that_is_none_is_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(InputError) as caught:
        Token(tmp_path / "token").headers("ann")
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("address", ["", "localhost", "ftp://x", "http://", "unix:", "http://u:p@x/", "http://x?y=1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError):
        Connection(address)


def test_a_socket_of_this_machine_is_an_address(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="FileNotFound"):
        RestClient(Connection(f"unix:{tmp_path}/none"), "v0.0.40").read()
