"""Workloads: readers, generators, filters; and what readers and generators of one's own are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.public import lazily

if TYPE_CHECKING:
    from unrack.workload.filters import FILTERS as FILTERS
    from unrack.workload.filters import jitter as jitter
    from unrack.workload.formats.gpu.dlrm import read_dlrm as read_dlrm
    from unrack.workload.formats.gpu.minsky import read_minsky as read_minsky
    from unrack.workload.formats.gpu.openb import read_openb as read_openb
    from unrack.workload.formats.gpu.times import SOLO as SOLO
    from unrack.workload.formats.gpu.times import read_times as read_times
    from unrack.workload.formats.rules import Intake as Intake
    from unrack.workload.formats.servers_json import read_servers as read_servers
    from unrack.workload.generate.batch.spec import SYNTHETIC_CORES as SYNTHETIC_CORES
    from unrack.workload.generate.memory.matching import match as match
    from unrack.workload.generate.memory.mix import mix as mix
    from unrack.workload.generate.rodinia.generator import WARM_UP as WARM_UP
    from unrack.workload.generate.rodinia.generator import generate_rodinia as generate_rodinia
    from unrack.workload.generate.rodinia.spec import NETWORK_SHARES as NETWORK_SHARES
    from unrack.workload.generate.training.generator import generate_training as generate_training
    from unrack.workload.generate.training.spec import BATCH_SIZES as BATCH_SIZES
    from unrack.workload.generate.training.spec import NETWORKS as NETWORKS
    from unrack.workload.job import JobTable as JobTable
    from unrack.workload.job import job_table as job_table
    from unrack.workload.resample import draw_again as draw_again
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "filters": "FILTERS jitter",
            "formats.gpu.dlrm": "read_dlrm",
            "formats.gpu.minsky": "read_minsky",
            "formats.gpu.openb": "read_openb",
            "formats.gpu.times": "SOLO read_times",
            "formats.rules": "Intake",
            "formats.servers_json": "read_servers",
            "generate.batch.spec": "SYNTHETIC_CORES",
            "generate.memory.matching": "match",
            "generate.memory.mix": "mix",
            "generate.rodinia.generator": "WARM_UP generate_rodinia",
            "generate.rodinia.spec": "NETWORK_SHARES",
            "generate.training.generator": "generate_training",
            "generate.training.spec": "BATCH_SIZES NETWORKS",
            "job": "JobTable job_table",
            "resample": "draw_again",
        },
    )
