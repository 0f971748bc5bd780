"""What is left out when kernels are compiled, as it comes to nothing: a third of the time of a first use.

Numba finds out which variables live where after each of a dozen passes, and is asked for it twice; runs passes for
what kernels do not have; tries ten ways and more for every ``+`` and every index, anew each time. What is made
meanwhile is mostly held until the end, so that a collector of garbage looks through it again and again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from numba.core import compiler_machinery, config, ir, postproc, transforms, typed_passes, types, untyped_passes
from numba.core.postproc import PostProcessor
from numba.core.types.functions import Function

_process, _find = PostProcessor.run, Function.get_call_type
_found: dict[Any, tuple[Any, Any]] = {}
"""Function and types of its arguments → what numba found for them, kept while a process lives."""
_SIMPLE = (types.Number, types.Boolean, types.Literal, types.Array)


def _simple(kind: Any) -> bool:
    return isinstance(kind, _SIMPLE) or (isinstance(kind, types.BaseTuple) and all(map(_simple, kind.types)))


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


def _processed(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Which variables live where: found when it is asked for, but for generators."""
    if self.func_ir.is_generator:
        _process(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


@contextmanager
def quickly() -> Iterator[None]:
    """Compile so; and with few optimisations unless ``NUMBA_OPT`` says how, which makes kernels that are as fast."""
    usual, collecting = config.OPT, gc.isenabled()
    before = PostProcessor.run, Function.get_call_type  # a kernel that another one calls is compiled meanwhile
    if "NUMBA_OPT" not in os.environ:
        config.OPT = type(usual)(1)
    PostProcessor.run, Function.get_call_type = _processed, _get_call_type
    gc.disable()
    try:
        yield
    finally:
        config.OPT = usual
        PostProcessor.run, Function.get_call_type = before
        if collecting:
            gc.enable()


def _where(needed: Callable[[Any], bool], usual: Any) -> Any:
    """A pass of numba that is run for functions that need it."""

    def run_pass(self: Any, state: Any) -> bool:
        return needed(state) and bool(usual.run_pass(self, state))

    name = f"unrack_{usual._name}"
    kind = type(usual.__name__, (usual,), {"_name": name, "run_pass": run_pass})
    return compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)(kind)


def _has_functions(state: Any) -> bool:
    return any(isinstance(one, CodeType) for one in state.func_id.code.co_consts)


def _makes_arrays(state: Any) -> bool:
    """Whether an array is what an operator gives, or a call."""
    return any(
        isinstance(inst.value, ir.Expr)
        and inst.value.op in ("binop", "inplace_binop", "unary", "call")
        and isinstance(state.typemap[inst.target.name], types.Array)
        for block in state.func_ir.blocks.values()
        for inst in block.find_insts(ir.Assign)
    )


INSTEAD: dict[Any, Any] = {
    untyped_passes.InlineClosureLikes: _where(_has_functions, untyped_passes.InlineClosureLikes),
    typed_passes.NopythonRewrites: _where(_makes_arrays, typed_passes.NopythonRewrites),
}
"""Pass of numba → the pass in its place."""
