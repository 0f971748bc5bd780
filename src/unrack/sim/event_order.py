"""What comes first at one time: ranks of events."""

BOOKED, FINISH, DETACH, FAIL, REPAIR, SUBMIT, LATE_FINISH = range(7)
"""Ranks: what comes first at one time."""
