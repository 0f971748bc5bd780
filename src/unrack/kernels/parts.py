"""How kernels are compiled: without counting what they are handed, and parts never as machine code by themselves.

Numba counts the holders of an array at nearly every use, by two atomic operations. In loops over columns that was two
thirds of the time. A function that returns no array cannot keep one: its caller holds its arguments, and the
columns behind them, until it has ended. So these are not counted, nor are structs at all, which are made outside.

Nor does an index count from the back, unless it is a negative constant. Numba lets any, so that each entry is one of
two, which keeps loops over entries from taking several at once.

Numba optimises every function that it compiles and turns it into machine code, also those that it then only copies
into the kernels that call them, where they are optimised again. Without the first of the two a first use takes a
quarter to a third less time. What this rests on is the way numba lets a compiler be put together of passes, and its
code library.
"""

from __future__ import annotations

from functools import cached_property, reduce
from typing import Any

from numba.core import cgutils, codegen, compiler, compiler_machinery, ir, lowering, typed_passes, types
from numba.core.ir_utils import get_definition, guard
from numba.experimental import structref
from numba.np import arrayobj

from unrack.kernels import quick
from unrack.kernels.counting import OTHERS, holds_arrays, is_counted


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The same value, with arrays of which it is not said where they are counted."""
    if isinstance(kind, types.Array):
        for name in ("meminfo", "parent"):
            at = _position(context, kind, name)
            value = builder.insert_value(value, cgutils.get_null_value(value.type.elements[at]), at)
        return value
    if isinstance(kind, types.BaseTuple):
        for i, of in enumerate(kind.types):
            if holds_arrays(of):
                own = _uncounted(context, builder, of, builder.extract_value(value, i))
                value = builder.insert_value(value, own, i)
    return value


def _position(context: Any, kind: Any, name: str) -> int:
    """Where a part of an array, or of an iterator, stands in its value."""
    return int(context.data_model_manager[kind].get_field_position(name))


def _element(context: Any, builder: Any, kind: Any, array: Any, indices: list[Any]) -> Any:
    """Where an element of an array is."""

    def part(name: str) -> list[Any]:
        whole = builder.extract_value(array, _position(context, kind, name))
        return [builder.extract_value(whole, axis) for axis in range(kind.ndim)]

    data = builder.extract_value(array, _position(context, kind, "data"))
    if kind.layout == "A":
        steps = [builder.mul(step, index) for step, index in zip(part("strides"), indices, strict=True)]
        return cgutils.pointer_add(builder, data, reduce(builder.add, steps))
    across = [*enumerate(indices)][:: 1 if kind.layout == "C" else -1]
    (_, at), lengths = across[0], part("shape") if kind.ndim > 1 else []
    for axis, index in across[1:]:
        at = builder.add(builder.mul(at, lengths[axis]), index)
    return builder.gep(data, [at])


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Numba's own, but for what is not counted, and in few instructions where numba writes dozens.

    Numba takes an array into pieces, in memory, and puts it together again for each element that it reads, and counts
    numbers. That this comes to nothing is found out when code is optimised: to write and read it took half of the time.
    """

    _uncounting = False
    """Whether a variable is assigned that is not counted."""

    @cached_property
    def _keeps_nothing(self) -> bool:
        return not holds_arrays(self.fndesc.restype)

    @cached_property
    def _others(self) -> set[str]:
        """Variables with arrays that are others' alone, or parts of theirs, and so are not counted."""
        return set(self.metadata[OTHERS])

    def _is_counted(self, kind: Any) -> bool:
        return is_counted(self.context, kind)

    def extract_function_arguments(self) -> Any:
        """The arguments."""
        values = super().extract_function_arguments()
        if self._keeps_nothing:
            kinds = self.fndesc.argtypes
            self.fnargs = [
                _uncounted(self.context, self.builder, kind, value) for kind, value in zip(kinds, values, strict=True)
            ]
        return self.fnargs

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """What a variable gets: for a function nothing, as a kernel that reads where one is cannot be kept."""
        called = isinstance(ty, types.Dispatcher)
        return self.context.get_constant_null(ty) if called else super().lower_assign(ty, inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """An expression: columns of structs are read here, shapes, and numbers of a range."""
        if expr.op not in ("getattr", "getiter", "iternext", "pair_first", "pair_second"):
            return super().lower_expr(resty, expr)
        builder, kind = self.builder, self.typeof(expr.value.name)
        if expr.op == "getattr" and isinstance(kind, types.StructRef) and self._keeps_nothing:
            struct = structref._Utils(self.context, builder, kind)
            value = getattr(struct.get_data_struct(self.loadvar(expr.value.name)), expr.attr)
            own = kind.field_dict[expr.attr]
            return self.context.cast(builder, _uncounted(self.context, builder, own, value), own, resty)
        if expr.op == "getattr" and isinstance(kind, types.Array) and expr.attr == "shape":
            return builder.extract_value(self.loadvar(expr.value.name), _position(self.context, kind, "shape"))
        if expr.op == "getiter" and kind == types.range_state64_type and self._by_one(expr.value):
            return self._begun(resty, self.loadvar(expr.value.name))
        if expr.op == "iternext" and kind == types.range_iter64_type:
            return self._counted_on(resty, kind, self.loadvar(expr.value.name))
        if expr.op in ("pair_first", "pair_second") and not self._is_counted(kind):
            return builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def _by_one(self, var: Any) -> bool:
        """Whether a range goes on by 1, as its call tells."""
        call = guard(get_definition, self.func_ir, var)
        return isinstance(call, ir.Expr) and call.op == "call" and len(call.args) < 3 and not call.kws

    def _begun(self, kind: Any, numbers: Any) -> Any:
        """An iterator, before the first number of a range by 1."""
        builder = self.builder
        start, stop, step = (builder.extract_value(numbers, i) for i in range(3))
        at, left = (cgutils.alloca_once(builder, start.type) for _ in range(2))
        builder.store(start, at)
        some = builder.icmp_signed(">", stop, start)
        builder.store(builder.select(some, builder.sub(stop, start), start.type(0)), left)
        value = self.context.get_constant_undef(kind)
        for name, part in (("iter", at), ("stop", stop), ("step", step), ("count", left)):
            value = builder.insert_value(value, part, _position(self.context, kind, name))
        return value

    def _counted_on(self, pair: Any, kind: Any, iterator: Any) -> Any:
        """The next number of a range and whether there is one."""
        builder = self.builder
        at, step, left = (
            builder.extract_value(iterator, _position(self.context, kind, name)) for name in ("iter", "step", "count")
        )
        number, count = builder.load(at), builder.load(left)
        some = builder.icmp_signed(">", count, count.type(0))
        with builder.if_then(some):
            builder.store(builder.sub(count, count.type(1), flags=["nsw"]), left)
            builder.store(builder.add(number, step), at)
        value = builder.insert_value(self.context.get_constant_undef(pair), number, 0)
        return builder.insert_value(value, some, 1)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """An element of an array, or a part."""
        signature = self._from_the_front(signature, index)
        kind = self.typeof(value.name)
        where = self._where(kind, value, index, signature)
        if where is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        return self.context.cast(
            self.builder, arrayobj.load_item(self.context, self.builder, kind, where), kind.dtype, resty
        )

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """An element of an array is set, or a part."""
        signature = self._from_the_front(signature, index_var)
        kind, given = self.typeof(target_var.name), self.typeof(value_var.name)
        number = isinstance(given, types.Number | types.Boolean)
        where = self._where(kind, target_var, index_var, signature) if number else None
        if where is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), given, signature.args[2])
        value = self.context.cast(self.builder, value, signature.args[2], kind.dtype)
        return arrayobj.store_item(self.context, self.builder, kind, value, where)

    def _where(self, kind: Any, array: Any, index: Any, signature: Any) -> Any:
        """Where the element is that whole numbers from 0 on tell; nothing where it is left to numba."""
        if self.context.enable_boundscheck or not (
            isinstance(kind, types.Array) and isinstance(kind.dtype, types.Number | types.Boolean)
        ):
            return None
        given, asked = self.typeof(index.name), signature.args[1]
        several = isinstance(asked, types.BaseTuple)
        if (asked.types if several else (asked,)) != (types.uintp,) * kind.ndim:
            return None
        builder, value = self.builder, self.loadvar(index.name)
        values = [builder.extract_value(value, axis) for axis in range(kind.ndim)] if several else [value]
        indices = [
            self.context.cast(builder, one, of, types.uintp)
            for one, of in zip(values, given.types if several else (given,), strict=True)
        ]
        return _element(self.context, builder, kind, self.loadvar(array.name), indices)

    def _from_the_front(self, signature: Any, index: Any) -> Any:
        """The signature of an index into an array in which whole numbers count from the front alone."""
        array, asked = signature.args[0], signature.args[1]
        if not isinstance(array, types.Array):
            return signature
        given = self.typeof(index.name)
        parts, known = (asked.types, given.types) if isinstance(asked, types.BaseTuple) else ((asked,), (given,))
        front = [
            types.uintp if isinstance(part, types.Integer) and getattr(of, "literal_value", 0) >= 0 else part
            for part, of in zip(parts, known, strict=True)
        ]
        own = types.Tuple(front) if isinstance(asked, types.BaseTuple) else front[0]
        return signature.replace(args=(array, own, *signature.args[2:]))

    def lower_inst(self, inst: Any) -> None:
        """A statement."""
        self._uncounting = isinstance(inst, ir.Assign) and inst.target.name in self._others
        super().lower_inst(inst)
        self._uncounting = False

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """A place for a variable, of which no debugger is told: for that numba has a module read to find its size."""
        return cgutils.alloca_once(self.builder, lltype, name=name)

    def incref(self, typ: Any, val: Any) -> None:
        """One more holds it."""
        if not self._uncounting and self._is_counted(typ):
            super().incref(typ, val)

    def decref(self, typ: Any, val: Any) -> None:
        """One fewer holds it."""
        if not self._uncounting and self._is_counted(typ):
            super().decref(typ, val)

    def delvar(self, name: str) -> None:
        """A variable is needed no more."""
        if name not in self._others and self._is_counted(self.typeof(name)):
            super().delvar(name)


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.BaseNativeLowering):  # type: ignore[misc]
    _name = "unrack_lowering"

    @property
    def lowering_class(self) -> Any:
        """What writes the code."""
        return _Lower


class KernelCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's own compiler, but for what is not counted."""

    def define_pipelines(self) -> list[Any]:
        """The usual passes, with some in place of others."""
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        instead = quick.INSTEAD | {typed_passes.NativeLowering: _Lowering}
        passes.passes = [(instead.get(one, one), said) for one, said in passes.passes]
        passes.finalize()
        return [passes]


class _NoEnvironment:
    """A code generator that is told of no environment: a part runs in that of the kernel that it is in."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing: there is no machine code to tell."""


class _PartLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The code of a part with that of the parts that it calls: linked, and neither optimised nor made to run."""

    @property
    def codegen(self) -> Any:
        """What made it."""
        return _NoEnvironment(self._codegen)

    def finalize(self) -> None:
        """Link what it calls."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@compiler_machinery.register_pass(mutates_CFG=False, analysis_only=True)
class _IntoPart(compiler_machinery.LoweringPass):  # type: ignore[misc]
    _name = "unrack_into_part"

    def __init__(self) -> None:
        compiler_machinery.LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make the library before anything is written into it."""
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


class PartCompiler(KernelCompiler):
    """The same for parts; their code goes into a library of theirs."""

    def define_pipelines(self) -> list[Any]:
        """One pass more."""
        (passes,) = super().define_pipelines()
        passes.add_pass_after(_IntoPart, typed_passes.AnnotateTypes)
        passes.finalize()
        return [passes]
