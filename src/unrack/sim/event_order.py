"""What comes first at one time: ranks of events."""

BOOKED, FINISH, DETACH, FAIL, REPAIR, ACKNOWLEDGE, MONITOR, LACK, SUBMIT, LATE_FINISH = range(10)
"""Ranks: what comes first at one time. MONITOR, LACK: memory in use is looked at; a job needs more than it holds."""
