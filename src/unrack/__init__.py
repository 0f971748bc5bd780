"""Scheduling for disaggregated data centres: simulate, plan, run, reproduce.

>>> import unrack
>>> workload = unrack.generate({"jobs": 50, "load": 0.9, "cores": 8}, seed=1)  # doctest: +SKIP
>>> cluster = unrack.Cluster.homogeneous(nodes=8, cores=1)
>>> result = unrack.simulate(cluster, workload, policy="easy")  # doctest: +SKIP
"""
