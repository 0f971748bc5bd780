"""Named tuples of arrays that kernels take as one thing: in a microsecond, and passed on as a pointer.

A tuple of many arrays is passed on array by array, seven numbers each: that takes half of the time for which a kernel
is compiled, and 10 µs a call from Python.
"""

from __future__ import annotations

import copy
import hashlib
from functools import cached_property
from typing import Any

import numpy as np
from numba import config
from numba.core import cgutils, types
from numba.experimental import structref
from numba.experimental.jitclass.base import imp_dtor
from numba.extending import intrinsic

from unrack.jit import compiled


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

    _numba_type_ = structref.StructRefProxy._type  # which each call of a kernel reads, without a call of Python

    def __deepcopy__(self, memo: Any) -> Struct:
        """Itself: a copy of the arrays makes another."""
        return self


structref.define_boxing(StructType, Struct)


@intrinsic  # type: ignore[untyped-decorator]
def _filled(typing: Any, arrays: Any) -> Any:
    """A struct with the fields of a named tuple."""
    kind = StructType(zip(arrays.fields, arrays.types, strict=True))

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        payload = context.data_model_manager[kind.get_data_type()].get_value_type()
        size = context.get_constant(types.uintp, context.get_abi_sizeof(payload))
        ends = imp_dtor(context, builder.module, kind)
        meminfo = context.nrt.meminfo_alloc_dtor(builder, size, ends)
        data = builder.bitcast(context.nrt.meminfo_data(builder, meminfo), payload.as_pointer())
        builder.store(cgutils.get_null_value(payload), data)
        made = context.make_helper(builder, kind)
        made.meminfo = meminfo
        values = cgutils.create_struct_proxy(kind.get_data_type())(context, builder, ref=data)
        for i, (name, of) in enumerate(kind.field_dict.items()):
            value = builder.extract_value(args[0], i)
            context.nrt.incref(builder, of, value)
            setattr(values, name, value)
        return made._getvalue()

    return kind(arrays), generate


@compiled
def _struct(arrays: Any) -> Any:
    return _filled(arrays)
