"""The papers' tables and figures again: one file a paper says what to run, what was printed and what was claimed."""
