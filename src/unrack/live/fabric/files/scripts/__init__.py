"""What runs on the nodes: ``unrack-prolog`` and ``unrack-epilog``, with the Python of the node and nothing else."""

from __future__ import annotations

from pathlib import Path


def scripts_folder() -> Path:
    """The folder with the scripts, to be copied to where the nodes' ``Prolog`` and ``Epilog`` are."""
    return Path(__file__).parent
