"""The classic fair-share factor: 2 to the power of minus what was used over what was promised.

::

    S   = product over the row and those above it of shares / shares of siblings
    U   = used by the row and all below it / used by all
    U_E = U + (U_E of the account above - U) * shares / shares of siblings;  just below the root U_E = U
    F   = 2 ** (-U_E / S / dampening)

A user without shares of its own has S and U_E of the account above. An account without has them, too; what is below it
counts as if it was not there. The documents do not say what F is of S = 0: here it is 0. If nothing was used, U is 0.
O(k) for k rows.

References
----------
Slurm, classic_fair_share.html, "The Slurm Fair-Share Formula" and "FairShare=parent"; sacctmgr(1), "Fairshare".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.errors import InputError
from unrack.kernels.arrays import Floats
from unrack.policy.priority.tree import Associations, of_siblings, with_descendants


class FairShare(NamedTuple):
    """What the factor is made of."""

    shares: Floats  # float64[k]: S, normalised, 0 to 1
    usage: Floats  # float64[k]: U_E, effective, 0 to 1
    factor: Floats  # float64[k]: F, 0 to 1; above 1/2: less was used than promised


def share_of_siblings(tree: Associations) -> Floats:
    """float64[k]: shares over those of all siblings; 0: it has none, or none of its own."""
    own = np.maximum(tree.shares, 0).astype(np.float64)
    all_of = of_siblings(tree, own)
    return np.divide(own, all_of, out=np.zeros_like(own), where=all_of > 0)


def fair_share(tree: Associations, used: Floats, dampening: float = 1.0) -> FairShare:
    """The factors of all rows.

    An InputError if the dampening is not above 0.

    Parameters
    ----------
    used : float64[k]
        What each row has used itself, without those below it: ``Usage.at``; not negative.
    dampening
        Slurm's FairShareDampeningFactor; above 1 brings the factors of heavy and light users nearer to each other.
    """
    if not dampening > 0:
        raise InputError("fair share, dampening", str(dampening), "a number above 0")
    total = with_descendants(tree, used)
    everything = float(total[tree.parent < 0].sum())
    actual = total / everything if everything > 0 else np.zeros_like(total)
    part, own = share_of_siblings(tree), tree.shares >= 0
    shares, effective = np.ones(len(own) + 1), np.full(len(own) + 1, float(everything > 0))  # the last: of the root
    for depth, rows in enumerate(tree.levels):
        above = tree.above[rows]
        towards = actual[rows] + (effective[above] - actual[rows]) * part[rows] if depth else actual[rows]
        shares[rows] = shares[above] * np.where(own[rows], part[rows], 1.0)
        effective[rows] = np.where(own[rows], towards, effective[above])
    shares, effective = shares[:-1], effective[:-1]
    ratio = np.divide(effective, shares, out=np.full_like(shares, np.inf), where=shares > 0)
    return FairShare(shares, effective, np.exp2(-ratio / dampening))
