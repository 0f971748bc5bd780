"""Which variables of a kernel hold arrays that numba has to count: those that the kernel makes itself."""

from __future__ import annotations

from typing import Any

from numba.core import ir, types

_PASSING_ON = (
    "build_tuple", "cast", "exhaust_iter", "getiter", "iternext", "null", "pair_first", "pair_second", "phi", "undef",
)  # fmt: skip
"""Expressions that make no array."""
_counted: dict[int, bool] = {}
"""Number of a type → whether numba counts its values."""
OTHERS = "unrack_others"
"""Where the metadata of a kernel say what :func:`others` found."""


def holds_arrays(kind: Any) -> bool:
    """Whether values of a type hold arrays, or may."""
    if isinstance(kind, types.BaseTuple):
        return any(map(holds_arrays, kind.types))
    return not isinstance(kind, types.Number | types.Boolean | types.NoneType | types.UnicodeType)


def is_counted(context: Any, kind: Any) -> bool:
    """Whether numba counts values of a type. Structs, which it would, are not."""
    found = _counted.get(kind._code)
    if found is None:
        holds = context.data_model_manager[kind].contains_nrt_meminfo()
        found = _counted[kind._code] = not isinstance(kind, types.StructRef) and holds
    return found


def makes_arrays(state: Any) -> bool:
    """Whether a variable holds an array of the kernel's own; says in the metadata which hold others'."""
    assigned: dict[str, list[Any]] = {}
    for block in state.func_ir.blocks.values():
        for inst in block.find_insts(ir.Assign):
            if is_counted(state.targetctx, state.typemap[inst.target.name]):
                assigned.setdefault(inst.target.name, []).append(inst.value)
    others = set() if holds_arrays(state.return_type) else set(assigned)
    while own := {name for name in others if not all(_of_others(state, one, others) for one in assigned[name])}:
        others -= own
    state.metadata[OTHERS] = others
    return len(others) < len(assigned)


def _of_others(state: Any, value: Any, others: set[str]) -> bool:
    """Whether what is assigned has arrays of the callers alone, where these variables have."""
    if isinstance(value, ir.Arg | ir.Global | ir.FreeVar | ir.Const):
        return True
    if isinstance(value, ir.Var):
        return value.name in others
    if not isinstance(value, ir.Expr) or not _passes_on(state, value):
        return False
    counted = (var.name for var in value.list_vars() if is_counted(state.targetctx, state.typemap[var.name]))
    return all(name in others for name in counted)


def _passes_on(state: Any, value: Any) -> bool:
    """Whether an expression makes no array of its own."""
    if value.op == "call":
        return isinstance(state.typemap[value.func.name], types.NamedTupleClass)
    if value.op == "getattr":
        return isinstance(state.typemap[value.value.name], types.StructRef | types.BaseTuple)
    if value.op not in ("getitem", "static_getitem"):
        return value.op in _PASSING_ON
    kind = state.typemap[value.value.name]
    if isinstance(kind, types.Array) and value.op == "getitem":
        index = state.typemap[value.index.name]
        parts = index.types if isinstance(index, types.BaseTuple) else (index,)
        return all(isinstance(part, types.Integer | types.SliceType) for part in parts)
    return isinstance(kind, types.Array | types.BaseTuple)
