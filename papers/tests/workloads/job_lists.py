"""Small lists of jobs and of pods on GPUs, typed for the tests."""

from __future__ import annotations

from typing import Any

from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

TIMES = """\
kind,application,batch_size,gpus,other_application,other_batch_size,other_gpus,placement,time_s
solo,bvlc_alexnet,1,1,,,,intra,70
solo,bvlc_alexnet,1,2,,,,inter,160
solo,bvlc_alexnet,1,2,,,,intra,125.5
solo,bvlc_alexnet,1,4,,,,inter,80
solo,bvlc_alexnet,4,1,,,,intra,110
solo,bvlc_alexnet,4,1,,,,inter,130
solo,bvlc_alexnet,4,4,,,,intra,90
collocation,bvlc_alexnet,1,1,bvlc_alexnet,1,1,,9
"""
MINSKY_HEADER = "id,arrival_s,application,batch_size,gpus,tasks,memory_gb,minimal_utility\n"
MINSKY = (
    MINSKY_HEADER
    + """\
0,7,bvlc_alexnet,1,2,1,1,0.40001
1,17.5,bvlc_alexnet,4,1,1,2,0.5
2,20,bvlc_alexnet,1,3,1,1,0
3,21,bvlc_alexnet,4,2,1,1,1
"""
)
PHILLY_HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
PHILLY = (
    PHILLY_HEADER
    + """\
2017-10-09 07:02:00,66.0,1,66.0,north
2017-10-09 07:01:30,10,16,160,north
2017-10-09 07:01:00,20.5,12,246,south
2017-10-09 07:03:00,5,8,40,south
"""
)
PODS_HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
PODS = (
    PODS_HEADER
    + """
a,12000,16384,1,1000
b,6001,12288,1,460
c,500,0,0,0
d,96000,393216,8,1000
"""
)
TIMED_HEADER = PODS_HEADER + ",gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
TIMED = (
    TIMED_HEADER
    + """\
a,12000,16384,1,1000,V100M16|V100M32,LS,Running,100,190,130
b,6000,12288,2,500,,BE,Pending,20,50,
c,6000,12288,1,500,T4,BE,Failed,30,50,10
"""
)


def read(text: str, **options: Any) -> Workload:
    """What is read of a list."""
    return read_trace(Source("list.csv", text.encode()), **options)


def asked(made: Workload, quantity: str) -> list[int]:
    """What jobs ask for of GPUs."""
    return made.jobs.devices["gpus", quantity].tolist()
