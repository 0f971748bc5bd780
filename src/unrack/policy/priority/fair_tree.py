"""Fair Tree: users ranked from the top of the tree down, the account that is furthest behind its share first.

::

    LF = (shares / shares of siblings) / (used / used by the account above)

All users of an account with a higher LF are before all users of a sibling with a lower one. Users are ranked depth
first, the highest LF leading, and factor = rank / users, where the rank of the first is the number of users. Ties:
siblings with equal LF have equal ranks, and the next rank counts them all; accounts with equal LF are merged; a user
with the LF of an account has the rank of the account's first user.

LF is infinite for what has used nothing, and 0 for what has no shares. As in Slurm, it is infinite for a user with
shares ``parent``. LF are equal if they are the same number: amounts that differ by rounding are no ties.
O(k log k) for k rows.

References
----------
Slurm, fair_tree.html, "Algorithm", "Level Fairshare Calculation" and "Ties" (Cox and Morrison 2014).
"""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Floats, Ints
from unrack.policy.priority.tree import FROM_PARENT, Associations, of_siblings, with_descendants


def level_fair_share(tree: Associations, used: Floats) -> Floats:
    """float64[k]: LF of all rows, 0 to infinity; of accounts with shares ``parent`` NaN, as it is not used.

    ``used``: float64[k], what each row has used itself, without those below it.
    """
    total = with_descendants(tree, used)
    shares = np.maximum(tree.shares, 0).astype(np.float64)
    everything = total[tree.parent < 0].sum()
    in_account = np.where(tree.above < 0, everything, total[tree.above])
    # one quotient of products, so that of whole numbers equal ratios are equal numbers
    lost = total * of_siblings(tree, shares)
    level: Floats = np.divide(shares * in_account, lost, out=np.full_like(shares, np.inf), where=lost > 0)
    level[tree.shares == 0] = 0.0
    level[tree.shares == FROM_PARENT] = np.where(tree.is_user, np.inf, np.nan)[tree.shares == FROM_PARENT]
    return level


def fair_tree(tree: Associations, used: Floats) -> Floats:
    """Factors of users: float64[k], above 0 to 1; of accounts 0.

    ``used``: float64[k], what each row has used itself, without those below it: ``Usage.at``; not negative.
    """
    factor = np.zeros(len(tree.name))
    users = np.flatnonzero(tree.is_user)
    if not users.size:
        return factor
    place = np.unique(-level_fair_share(tree, used), return_inverse=True)[1]  # equal numbers for equal LF, from 0
    # int64[depth, k]: the places of a row and of all above it, from the top; -1 below it, so that a user is before what
    # is in the accounts of its place. Accounts of equal places have equal columns, which merges them
    path: Ints = np.full((len(tree.levels), len(tree.name)), -1)
    for depth, rows in enumerate(tree.levels):
        path[:depth, rows] = path[:depth, tree.above[rows]]
        path[depth, rows] = place[rows]
    path = path[:, users]
    order = np.lexsort(path[::-1])
    before, after = path[:, order[:-1]], path[:, order[1:]]
    # one that follows has the rank of the one before it if they have one place, or are in an account of its place
    tied = ((before == after) | (before < 0)).all(axis=0)
    first = np.maximum.accumulate(np.where(np.r_[False, tied], 0, np.arange(len(users))))
    factor[users[order]] = (len(users) - first) / len(users)
    return factor
