"""Where the components of a heterogeneous job go: one after the other, each on what those before it leave.

They choose in their order in the trace. One that has no place leaves the job without one: all start together, or none.
Any placement chooses for a component as for a job by itself, now and for times to come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unrack.ledger.lease import Lease, together
from unrack.policy.placement.claiming import claiming
from unrack.reasons import Code, Reason
from unrack.view import View
from unrack.view.apart import Apart


def components_of(view: View, job: int) -> Sequence[int]:
    """The components of a heterogeneous job, if the job is the first of them; none: it is a job by itself."""
    return view.columns.components.of.get(job, ())


def found_together(view: View, job: int, find: Callable[[View, int], Lease | None]) -> Lease | None:
    """The lease of all components; ``None``: one of them has no place.

    ``find``: the lease of one on what is free, as of :meth:`unrack.policy.placement.contract.Placement.find`.
    """
    left, parts = Apart(view, job), list[Lease]()
    for component in components_of(view, job):
        lease = find(left.view, component)
        if lease is None:
            return None
        left.hold(lease)
        parts.append(lease)
    return together(job, parts)


def why_not_together(
    view: View, job: int, find: Callable[[View, int], Lease | None], why: Callable[[View, int], Reason | None]
) -> Reason | None:  # fmt: skip
    """Why the first component without a place has none; ``None``: all have one."""
    left = Apart(view, job)
    for component in components_of(view, job):
        lease = find(left.view, component)
        if lease is None:
            reason = why(left.view, component) or Reason(Code.NOT_YET)
            return reason._replace(what=f"{reason.what}, component {view.job(component).id}".strip())
        left.hold(lease)
    return None


def kind_together(view: View, job: int, kind: Callable[[View, int], object]) -> object:
    """What decides whether a job has a place: the kinds of its components."""
    left = Apart(view, job)
    return tuple(kind(left.view, component) for component in components_of(view, job))


def lacking(view: View, job: int) -> Reason | None:
    """What a job, or one of its components, lacks wherever it runs; ``None``: nothing."""
    left = Apart(view, job).view if components_of(view, job) else view
    found = (claiming(left, one) for one in components_of(view, job) or (job,))
    return next((reason for claims in found if claims is not None and (reason := claims.lacks())), None)
