"""Slurm through slurmrestd.

Of 22.05 (v0.0.38) it can be read, and jobs can be held and released; that version refuses to be told where a job is to
run. Later ones take it. None of them can requeue a job: :class:`~unrack.live.slurm.orders.RequeueHeld` is refused.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from unrack.live.slurm.answers.constraints import partitions_of, reservations_of
from unrack.live.slurm.answers.errors import error_in
from unrack.live.slurm.answers.jobs import jobs_of
from unrack.live.slurm.answers.licences import licences_of
from unrack.live.slurm.answers.nodes import nodes_of
from unrack.live.slurm.client import UnreachableError
from unrack.live.slurm.commands.batch import words_of
from unrack.live.slurm.orders import Answer, HoldBack, Order, Place, Release, RequeueHeld
from unrack.live.slurm.reading import Reading
from unrack.live.slurm.rest.connection import Connection, Response
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.states import HOLDING
from unrack.slurm_text.values import listed, text, words

VERSIONS = ("v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40", "v0.0.39", "v0.0.38")
"""Versions of the interface, newest first."""


class RestClient:
    """A client of the REST service. Its user needs the rights of an operator for orders.

    Parameters
    ----------
    connection
        Where the service is.
    version
        Which version of the interface; ``""``: the newest that both know.
    """

    def __init__(self, connection: Connection, version: str = "") -> None:
        self._connection = connection
        self._version = version

    def changed(self) -> bool:
        """Always True: the service says since which second nothing changed, and much may happen in a second."""
        return True

    def read(self) -> Reading:
        """All that there is now."""
        at_s = time.time()
        kinds = ("nodes", "jobs", "licenses", "partitions", "reservations")
        answers = {kind: self._told(kind) for kind in kinds}
        try:
            nodes, bad_nodes = nodes_of(answers["nodes"])
            jobs, bad_jobs = jobs_of(answers["jobs"], nodes)
            licences, bad_licences = licences_of(answers["licenses"])
            partitions, bad_partitions = partitions_of(answers["partitions"])
            reservations, bad_reservations = reservations_of(answers["reservations"])
        except ValueError as error:
            raise UnreachableError(f"slurmrestd's answer cannot be understood: {error}") from error
        bad = (*bad_nodes, *bad_jobs, *bad_licences, *bad_partitions, *bad_reservations)
        return Reading(at_s, tuple(nodes), tuple(jobs), licences, partitions, reservations, bad)

    def carry_out(self, orders: Sequence[Order]) -> list[Answer]:
        """Give orders, a request for each; before a :class:`Place`, another that asks whether the job runs by now."""
        for order in orders:
            words_of(order)  # refuses what names no job or node
        return [Answer(order, self._carried_out(order)) for order in orders]

    def _carried_out(self, order: Order) -> str:
        path = f"job/{order.job}"
        if isinstance(order, RequeueHeld):
            return "the REST service cannot requeue jobs"
        if isinstance(order, Release):
            return _problem(self._post(path, {"hold": False}))
        held = self._held_nodes(path)
        if isinstance(order, Place):
            if held:
                return "" if held == set(order.nodes) else f"it holds {len(held)} nodes already"
            return _problem(self._post(path, _place(order)))
        if held:
            return f"it runs on {len(held)} nodes already"
        return _problem(self._post(path, _held_back(order)))

    def _held_nodes(self, path: str) -> set[str]:
        """The nodes that a job has; none if it does not run, or is not known."""
        for record in listed(self._get(path).body.get("jobs")):
            try:
                if isinstance(record, Mapping) and set(words(record.get("job_state"))) & HOLDING:
                    return set(expand(text(record.get("nodes"))))
            except ValueError as error:
                raise UnreachableError(f"slurmrestd's answer about a job cannot be understood: {error}") from error
        return set()

    def _told(self, kind: str) -> Mapping[str, Any]:
        response = self._get(kind)
        problem = _problem(response)
        if problem:
            raise UnreachableError(f"slurmrestd: {kind}: {problem}")
        return response.body

    def _get(self, path: str) -> Response:
        return self._connection.ask("GET", self._full(path))

    def _post(self, path: str, body: Mapping[str, Any]) -> Response:
        return self._connection.ask("POST", self._full(path), body)

    def _full(self, path: str) -> str:
        if not self._version:
            self._version = self._newest()
        return f"/slurm/{self._version}/{path}"

    def _newest(self) -> str:
        for version in VERSIONS:
            if self._connection.ask("GET", f"/slurm/{version}/ping").status != 404:
                return version
        raise UnreachableError(f"slurmrestd knows none of {', '.join(VERSIONS)}")


def _place(order: Place) -> dict[str, Any]:
    body: dict[str, Any] = {
        "required_nodes": list(order.nodes),
        "minimum_nodes": len(order.nodes),
        "maximum_nodes": len(order.nodes),
    }
    if order.tasks > 0:
        body["tasks"] = order.tasks
    if order.at_once:
        body["begin_time"] = {"set": True, "infinite": False, "number": int(time.time())}
    return body


def _held_back(order: HoldBack) -> dict[str, Any]:
    asked = {"minimum_nodes": order.nodes_min, "maximum_nodes": order.nodes_max, "tasks": order.tasks}
    return {
        "hold": True,
        "required_nodes": list(order.required_nodes),
        **{key: value for key, value in asked.items() if value > 0},
    }


def _problem(response: Response) -> str:
    """What an answer complains of: 22.05 sends its errors with status 200."""
    if said := error_in(response.body):
        return said
    return "" if response.status < 300 else f"status {response.status}"
