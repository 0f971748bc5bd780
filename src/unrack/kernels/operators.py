"""What numba finds out about an operator and the types of its arguments, kept while a process lives.

It tries ten ways and more for every ``+`` and every index, anew each time: a tenth to a third of the time for which
kernels are compiled.
"""

from __future__ import annotations

from typing import Any

import numba.core.types
from numba.core.types.functions import Function

_types: Any = numba.core.types
_Function: Any = Function
_find = _Function.get_call_type
_found: dict[Any, tuple[Any, Any]] = {}
_SIMPLE = (_types.Number, _types.Boolean, _types.Literal, _types.Array)


def _simple(kind: Any) -> bool:
    return isinstance(kind, _SIMPLE) or (isinstance(kind, _types.UniTuple) and isinstance(kind.dtype, _SIMPLE))


def _get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    if kws or not all(map(_simple, args)):
        return _find(self, context, args, kws)
    key = self.key, args
    if key not in _found:
        signature = _find(self, context, args, kws)
        _found[key] = signature, self._impl_keys[signature.args]
    signature, implementation = _found[key]
    self._impl_keys[signature.args] = implementation
    return signature


def remember_operators() -> None:
    """Let numba remember them."""
    _Function.get_call_type = _get_call_type
