"""What a policy sees while it chooses for the components of a heterogeneous job, one after the other."""

from __future__ import annotations

from copy import copy

from unrack.ledger.copies.apart import apart, hold
from unrack.ledger.devices.view import DeviceView
from unrack.ledger.lease import LENDER, LOAN_MB, Lease
from unrack.view.view import View


class Apart:
    """A view on which each component of a job is a job by itself.

    Parameters
    ----------
    view
        Of the ledger, or of what is assumed of it.
    job
        Its first component.

    Attributes
    ----------
    view
        What is left of it by the components that have chosen.
    """

    def __init__(self, view: View, job: int) -> None:
        self._state = apart(view._state, job)
        self.view = copy(view)
        self.view._state, self.view.columns = self._state, self._state.seen
        if self._state.devices is not None:
            self.view.devices = DeviceView(self._state.devices.reader)
        if view.lendable is not None:
            self.view.lendable = view.lendable.copy()

    def hold(self, lease: Lease) -> None:
        """A component has chosen."""
        hold(self._state, lease, self.view.now)
        if self.view.lendable is not None:
            for lender, mb in lease.borrowed[:, [LENDER, LOAN_MB]].tolist():
                self.view.lendable[lender] -= mb
