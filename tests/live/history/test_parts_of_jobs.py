"""Jobs of which the parts end one by one, such as gangs, in what a journal tells of them."""

from __future__ import annotations

from dataclasses import replace

from unrack.events import Adopted, Finished, Started, Submitted, Withdrawn
from unrack.ledger.lease import Lease
from unrack.live.driver.history.told import Fold
from unrack.live.records import event_record
from unrack.reasons import Code, Reason
from unrack.workload.job import Demand, Job


def test_a_job_of_which_a_part_has_ended_is_one_job_and_what_runs_on_of_it_another() -> None:
    asked = Job(0, "gang", 0, 100_000_000, None, 0, "u", "", Demand(2, 1, 0, {}))
    whole = {"key": "gang", "phase": "running", "seen_us": 0, "ours": True, "decided_us": 1, "started_us": 2}
    whole["lease"] = {"rows": [["n1", 1, 1, 0], ["n2", 1, 1, 0]]}
    left = {**whole, "phase": "foreign", "lease": {"rows": [["n2", 1, 1, 0]]}}
    beginning = {"nodes": ["n1", "n2"]}
    one = replace(asked, demand=Demand(1, 1, 0, {}))
    withdrawn = Withdrawn(0, Reason(Code.WITHDRAWN, "started elsewhere"))
    adopted = Adopted(one, Lease.on(-1, [1], [1], [1], [0]), 100)
    start = ["start", {"job": 0, "rows": [[0, 2, 1, 1, 0]]}, ""]
    fold = Fold()
    for now, told, decided, entry in (
        (1, [event_record(Submitted(asked))], [start], whole),
        (2, [event_record(Started(0))], [], whole),
        (5, [event_record(withdrawn), event_record(adopted)], [], left),
        (9, [event_record(Finished(1))], [], None),
    ):
        if now == 1:
            fold.take({"k": "begin", "now": 0, "why": "", "beginning": beginning, "told": [], "entries": {}})
        fold.take({"k": "turn", "now": now, "told": told, "decided": decided, "entries": {"gang": entry}})
    first, rest = fold.told.stays
    assert (first.ran, first.adopted, first.left_us, first.last.planned) == (True, False, 5, ("n1", "n2"))  # type: ignore[union-attr]
    assert (rest.rest, rest.adopted, rest.came_us, rest.left_us) == (True, True, 5, 9)
