"""Small lists of pods on GPUs, typed for the tests."""

from __future__ import annotations

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
