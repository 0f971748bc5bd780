"""Logs of a live scheduler: one event a line, without secrets, for machines or for people."""

from unrack.live.watch.log.events import Events, start_log

__all__ = ["Events", "start_log"]
