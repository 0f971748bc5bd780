"""What is left out when kernels are compiled, as it comes to nothing: a third or more of a first use's time.

Numba finds out which variables live where after each of a dozen passes, and is asked for it twice; runs passes for
what kernels do not have; tries ten ways and more for every ``+`` and every index, anew each time; logs each statement
for each variable, and takes the time of each call of LLVM once for every function that waits. LLVM writes loops out
several times over. What is made meanwhile is mostly held until the end, so that a collector of garbage looks through it
again and again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from numba.core import (
    codegen,
    compiler_machinery,
    config,
    event,
    interpreter,
    ir,
    postproc,
    ssa,
    transforms,
    typed_passes,
    types,
    untyped_passes,
)
from numba.core.inline_closurecall import InlineWorker
from numba.core.postproc import PostProcessor
from numba.core.types.functions import Function

from unrack.kernels.counting import makes_arrays

_process, _find, _read_anew = PostProcessor.run, Function.get_call_type, InlineWorker.run_untyped_passes
_tell_start, _tell_end = event.start_event, event.end_event
_delete_exits, _fuse = interpreter.peep_hole_delete_with_exit, interpreter.peep_hole_fuse_dict_add_updates
_LOCKS = "numba:compiler_lock", "numba:llvm_lock"
_NO_VARIABLE = frozenset({str, int, bool, type(None), ir.Loc})
_found: dict[Any, tuple[Any, Any]] = {}
"""Function and types of its arguments → what numba found for them, kept while a process lives."""
_texts: dict[Any, Any] = {}
"""Function that is put into others' code → what it says, kept likewise."""
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


def _variables(self: Any, value: Any) -> list[Any]:
    """The variables in a statement, an expression or a part of one."""
    found: list[Any] = []
    parts = [value]
    for part in parts:
        if isinstance(part, ir.Var):
            found.append(part)
        elif isinstance(part, dict):
            parts += [one for one in part.values() if type(one) not in _NO_VARIABLE]
        elif isinstance(part, list | tuple):
            parts += part
        elif isinstance(part, ir.Inst):
            found += part.list_vars()
    return found


def _names_in(block: Any) -> set[str]:
    """The variables in a block, found once while it stays as it is."""
    body, count, names = getattr(block, "named", (None, 0, set()))
    if body is not block.body or count != len(body):
        names = {var.name for inst in block.body for var in inst.list_vars()}
        block.named = block.body, len(block.body), names
    return names


def _rewritten(blocks: dict[int, Any], states: Any, handler: Any) -> dict[int, Any]:
    """Blocks, with those rewritten in which a variable stands; numba rewrites all of them, for each variable."""
    found: dict[int, Any] = {}
    for label, block in blocks.items():
        found[label], names = block, _names_in(block)
        if states["varname"] in names:
            states["label"], states["block"] = label, block
            found[label] = ir.Block(block.scope, block.loc)
            found[label].body = body = list(_each_handled(states, block, handler))
            found[label].named = body, len(body), names
    return found


def _read(self: Any, function: Any, enable_ssa: bool = False) -> Any:
    """What a function says that is put into others' code: read once; those get a copy."""
    self.flags.enable_ssa = enable_ssa
    key = function, enable_ssa
    if key not in _texts:
        _texts[key] = _read_anew(self, function, enable_ssa)
    return _texts[key]


def _each_handled(states: Any, block: Any, handler: Any) -> Iterator[Any]:
    """What a pass over statements makes of each; numba logs each three times."""
    for inst in block.body:
        yield handler.on_assign(states, inst) if isinstance(inst, ir.Assign) else handler.on_other(states, inst)


def _without_exits(func_ir: Any) -> Any:
    """What ``with`` leaves behind, taken out where there is a ``with``."""
    scope = next(iter(func_ir.blocks.values())).scope
    return _delete_exits(func_ir) if any(map(_is_exit, scope.localvars._con)) else func_ir


def _is_exit(name: str) -> bool:
    return name.startswith("$setup_with_exitfn")


def _with_fused(func_ir: Any) -> Any:
    """Dictionaries made in pieces, put together where there is one."""
    made = any(True for block in func_ir.blocks.values() for _ in block.find_exprs("build_map"))
    return _fuse(func_ir) if made else func_ir


def _start(kind: str, data: Any = None) -> None:
    """Tell of what begins, but for locks: numba takes the time of every call of LLVM, once a kernel in a kernel."""
    if kind not in _LOCKS:
        _tell_start(kind, data)


def _end(kind: str, data: Any = None, exc_details: Any = None) -> None:
    """The same at its end."""
    if kind not in _LOCKS:
        _tell_end(kind, data, exc_details)


def _tuned(machine: Any, **options: Any) -> Any:
    """How LLVM optimises: no loop is written out several times over, which made more code and nothing faster."""
    tuning = codegen.ll.create_pipeline_tuning_options()
    tuning.speed_level = options["opt"]
    tuning.loop_vectorization, tuning.slp_vectorization = options["loop_vectorize"], options["slp_vectorize"]
    tuning.loop_unrolling = tuning.loop_interleaving = False
    return codegen.ll.create_pass_builder(machine, tuning)


def _optimize_functions(self: Any, module: Any) -> None:
    """Each function that a module holds, not those that it only names."""
    module.data_layout = self._codegen._data_layout
    for function in module.functions:
        if not function.is_declaration:
            passes, builder = self._codegen._function_pass_manager()
            passes.run(function, builder)


_QUICK: tuple[tuple[Any, str, Any], ...] = (
    (PostProcessor, "run", _processed),
    (Function, "get_call_type", _get_call_type),
    (ir.Inst, "_rec_list_vars", _variables),
    (ssa, "_run_ssa_block_pass", _each_handled),
    (ssa, "_run_block_rewrite", _rewritten),
    (InlineWorker, "run_untyped_passes", _read),
    (interpreter, "peep_hole_delete_with_exit", _without_exits),
    (interpreter, "peep_hole_fuse_dict_add_updates", _with_fused),
    (event, "start_event", _start),
    (event, "end_event", _end),
    (codegen, "create_pass_builder", _tuned),
    (codegen.CPUCodeLibrary, "_optimize_functions", _optimize_functions),
)
"""Where numba has something, its name, and what is quicker."""


@contextmanager
def quickly() -> Iterator[None]:
    """Compile so; and with few optimisations unless ``NUMBA_OPT`` says how, which makes kernels that are as fast."""
    usual, collecting = config.OPT, gc.isenabled()
    before = [getattr(owner, name) for owner, name, _ in _QUICK]  # these, where one kernel is compiled for another
    if "NUMBA_OPT" not in os.environ:
        config.OPT = type(usual)(1)
    for owner, name, quick in _QUICK:
        setattr(owner, name, quick)
    gc.disable()
    try:
        yield
    finally:
        config.OPT = usual
        for (owner, name, _), was in zip(_QUICK, before, strict=True):
            setattr(owner, name, was)
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


def _needs_ends(state: Any) -> bool:
    """Whether something has to be done where a variable is needed no more."""
    return makes_arrays(state) or bool(state.func_ir.is_generator)


def _has_whole_arrays(state: Any) -> bool:
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
    typed_passes.NopythonRewrites: _where(_has_whole_arrays, typed_passes.NopythonRewrites),
    typed_passes.IRLegalization: _where(_needs_ends, typed_passes.IRLegalization),
}
"""Pass of numba → the pass in its place."""
