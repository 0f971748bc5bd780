"""Systems in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def values_text(values: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The values of a system in few words.

    Parameters
    ----------
    values
        Key → value.
    labels
        Key → words for it.

    Examples
    --------
    >>> values_text({"clusters.0.pools.0.count": 10}, {"clusters.0.pools.0.count": "drives of the pool nvme"})
    'drives of the pool nvme = 10'
    """
    return ", ".join(f"{labels.get(key, key)} = {shown(value)}" for key, value in values.items()) or "as it is"


def shown(value: Any) -> str:
    """A value of a key for people.

    Examples
    --------
    >>> shown(0.25), shown("64 GB"), shown(1000)
    ('0.25', '64 GB', '1,000')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
