"""Small lists of instances, typed for the tests."""

from __future__ import annotations

HEADER = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,"
    "memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time\n"
)


def line(
    name: str, role: str, app: str, cores: object, gpus: object = 0, rdma: object = 25, gb: object = 4,
    disk: object = 10, most: object = -1, created: object = "", scheduled: object = "", deleted: object = "",
) -> str:  # fmt: skip
    """One instance; limits are what is asked."""
    fields = [
        name,
        role,
        app,
        cores,
        cores,
        gpus,
        gpus,
        rdma,
        rdma,
        gb,
        gb,
        disk,
        disk,
        most,
        created,
        scheduled,
        deleted,
    ]
    return ",".join(map(str, fields)) + "\n"


LIST = HEADER + "".join([
    line("a", "HN", "x", 8, 1, 25, 120.5, 640, 2),
    line("b", "HN", "x", 8, 1, 50, 120, 640, 2, 50, 50, 100),
    line("c", "CN", "x", 48, 0, 1, 240, 500, -1, "", "", 60),
    line("d", "CN", "y", 64, 0, 100, 320, 500, 4, 10, 20, "90.0000000001"),
    line("e", "CN", "x", 12, 0, 1, 60, 500, 2, 80, 80, 200),
    line("f", "HN", "x", 8, 1, 25, 120, 640, 2, 90, 95, 93),
])  # fmt: skip
