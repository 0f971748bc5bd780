"""Small lists of jobs on GPUs, typed for the tests."""

from __future__ import annotations

HEADER = "id,submit,run,cores,memory,gpus.count,gpus.milli,gpu_models\n"
JOBS = (
    HEADER
    + """\
a,0,90,12,16384,1,0,
b,1,90,7,12288,1,460,
c,2,90,1,0,0,0,
d,3,90,96,393216,8,0,
"""
)
MODELS = (
    HEADER
    + """\
b,20,30,6,12288,2,500,
c,30,20,6,12288,1,500,T4
a,100,60,12,16384,1,0,V100M16|V100M32
"""
)
NODES = """\
sn,cpu_milli,memory_mib,gpu,model
n0,32000,262144,0,
n1,64999,262144,2,P100
n2,64999,262144,2,P100
n3,96000,262144,2,P100
n4,96000,262144,0,
n5,96000,393216,8,G2
"""
