"""A policy of one's own for pools of devices.

unrack run examples/my_pool_policy.toml
"""

from __future__ import annotations

import numpy as np

from unrack.policy import Lease, Placed, View


def shortest_wait_for_all(view: View, job: int, now: int) -> Lease | None:
    """Of all compositions in use, and of one free device, take where the jobs end earliest on average."""
    cores, mb = int(view.asks[1, job]), int(view.asks[2, job])
    asked = view.job(job).demand.devices.get("nvme", {})
    roomy = np.flatnonzero((view.free[0] >= cores) & (view.free[1] >= mb))
    if not any(asked.values()) or view.devices is None:
        return Lease.on(job, [int(roomy[0])], [1], [cores], [mb]) if roomy.size else None
    options = []
    in_use = view.devices.compositions("nvme")
    for node in roomy.tolist():
        free = view.devices.free("nvme", node).tolist()
        choices = [c.devices for c in in_use if c.node == node] + [(device,) for device in free[:1]]
        for devices in choices:
            share = view.devices.share(job, node, devices)
            lease = Lease.on(job, [node], [1], [cores], [mb])._replace(shares=(share,))
            if view.devices.admits(lease) is None:
                ends = view.devices.predicted_us(lease, int(view.estimate_us[job]), now)
                options.append((sum(ends.values()) / len(ends), node, devices, lease))
    return min(options, key=lambda option: option[:3])[3] if options else None


SHORTEST_WAIT = Placed(shortest_wait_for_all, order="edf", label="shortest wait for all")
