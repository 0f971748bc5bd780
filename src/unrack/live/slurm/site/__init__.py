"""The site file: what a live scheduler of a Slurm site may do, and how: ``docs/slurm-site.md``."""

from unrack.live.slurm.site.site import Site

__all__ = ["Site"]
