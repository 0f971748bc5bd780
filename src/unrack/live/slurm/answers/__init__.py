"""What Slurm answers, in any of its versions, in the one form of :mod:`unrack.live.slurm.reading`.

Known are the layouts of 22.05 (v0.0.38: plain numbers, ``null`` for what is not set) and of 23.02 to 25.05 (v0.0.39 to
v0.0.43: numbers as ``{"set": …, "infinite": …, "number": …}``, states as lists, allocations in two ways).
"""
