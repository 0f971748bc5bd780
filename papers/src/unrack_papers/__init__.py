"""The papers' tables and figures again: a folder a paper, with its scenarios, its printed numbers and its claims."""
