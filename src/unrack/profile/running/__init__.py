"""Runs of an application: processes, order, controls, records that survive an interruption."""
