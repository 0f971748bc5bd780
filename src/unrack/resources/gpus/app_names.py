"""Names of applications with a batch size."""

from __future__ import annotations

_PREFIX = "bvlc_"
_OTHER_NAMES = {"reference_caffenet": "cafferef"}


def app_name(application: str, batch_size: int) -> str:
    """The name of an application with a batch size, by which jobs and profiles find each other.

    Names of Caffe's models lose the prefix of their makers.

    Examples
    --------
    >>> app_name("bvlc_alexnet", 4), app_name("alexnet", 4), app_name("bvlc_reference_caffenet", 1)
    ('alexnet/4', 'alexnet/4', 'cafferef/1')
    """
    short = application.lower().removeprefix(_PREFIX)
    return f"{_OTHER_NAMES.get(short, short)}/{batch_size}"
