"""How long servers stay."""

from __future__ import annotations

FOREVER = "forever"
"""Instead of a lifetime: the server does not leave."""

FOREVER_S = 36_525 * 86_400
"""How long that is, in s: a hundred years, longer than any study."""

CLOUD = {"kind": "lognormal", "median": 3600, "sigma": 2.5, "max": 365 * 86_400}
"""Lifetimes where nothing else is said: half of them over within an hour, nine in ten within a day, and a mean of
some 20 hours, most of it by the few that stay for weeks. Cortez et al. (2017) found that clouds are so; the numbers are
unrack's own.

References
----------
E. Cortez, A. Bonde, A. Muzio, M. Russinovich, M. Fontoura, R. Bianchini: Resource Central: understanding and predicting
workloads for improved resource management in large cloud platforms. SOSP 2017.
"""
