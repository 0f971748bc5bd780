"""Named tuples of arrays that kernels take as one thing: in a microsecond, and passed on as a pointer.

A tuple of many arrays is passed on array by array, seven numbers each: that takes half of the time for which a kernel
is compiled, and 10 µs a call from Python.
"""

from __future__ import annotations

import copy
import hashlib
import struct
from functools import cached_property
from typing import Any

import numpy as np
from numba import config, typeof
from numba.core import types
from numba.core.runtime import _nrt_python
from numba.core.runtime.nrt import MemInfo
from numba.experimental import structref


class InKernels:
    """Of a named tuple of arrays: what kernels take for it, in place of it."""

    @cached_property
    def kernel(self) -> Any:
        """A struct with the same arrays; where nothing is compiled, the tuple."""
        return self if config.DISABLE_JIT else _struct(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """The arrays, without the struct of these."""
        values: Any = self
        return type(self), tuple(values)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """What cannot be written cannot be in copies either: kernels would be compiled again for these."""
        values: Any = self
        copied = copy.deepcopy(tuple(values), memo)
        for at in (at for at, one in enumerate(values) if isinstance(one, np.ndarray)):
            copied[at].flags.writeable = values[at].flags.writeable
        return type(values)(*copied)


@structref.register
class StructType(types.StructRef):  # type: ignore[misc]
    """Of a struct."""

    def __init__(self, fields: Any) -> None:
        super().__init__(fields)
        self.name = f"Struct{hashlib.blake2b(str(self._fields).encode(), digest_size=6).hexdigest()}"

    def preprocess_fields(self, fields: Any) -> Any:
        """Types of values, not of constants."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class Struct(structref.StructRefProxy):  # type: ignore[misc]
    """The arrays as one thing."""

    counted: int  # where it is counted who holds it
    _numba_type_ = structref.StructRefProxy._type  # which each call of a kernel reads, without a call of Python

    def __deepcopy__(self, memo: Any) -> Struct:
        """Itself: a copy of the arrays makes another."""
        return self


structref.define_boxing(StructType, Struct)


def _struct(fields: Any) -> Struct:
    """A struct with the fields of a named tuple, laid out as numba does; a kernel for it would compile for a second."""
    kind = StructType([(name, typeof(value)) for name, value in zip(fields._fields, fields, strict=True)])
    layout, words, owners = "", list[Any](), list[Any]()
    for value in fields:
        if isinstance(value, np.ndarray):
            start = value.ctypes.data
            counted = _nrt_python.meminfo_new(start, value)
            owners.append(MemInfo(counted))
            words += [counted, id(value), value.size, value.itemsize, start, *value.shape, *value.strides]
            layout += "PPqqP" + "qq" * value.ndim
        elif isinstance(value, Struct):
            owners.append(value)
            words.append(value.counted)
            layout += "P"
        else:
            words.append(value)
            layout += "?" if isinstance(value, bool | np.bool_) else "d" if isinstance(value, float) else "q"
    block = np.frombuffer(struct.pack(layout, *words), np.uint8)
    counted = _nrt_python.meminfo_new(block.ctypes.data, (block, owners))
    made: Struct = Struct._numba_box_(kind, MemInfo(counted))
    made.counted = counted
    return made
