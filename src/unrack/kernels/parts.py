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

from typing import Any

import numba.core.cgutils
import numba.core.codegen
import numba.core.compiler
import numba.core.compiler_machinery
import numba.core.lowering
import numba.core.typed_passes
import numba.core.types
import numba.experimental.structref

_cgutils: Any = numba.core.cgutils
_codegen: Any = numba.core.codegen
_compiler: Any = numba.core.compiler
_machinery: Any = numba.core.compiler_machinery
_lowering: Any = numba.core.lowering
_passes: Any = numba.core.typed_passes
_structref: Any = numba.experimental.structref
_types: Any = numba.core.types


def _holds_arrays(kind: Any) -> bool:
    """Whether values of a type hold arrays, or may."""
    if isinstance(kind, _types.BaseTuple):
        return any(map(_holds_arrays, kind.types))
    return not isinstance(kind, _types.Number | _types.Boolean | _types.NoneType | _types.UnicodeType)


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The same value, with arrays of which it is not said where they are counted."""
    if isinstance(kind, _types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = _cgutils.get_null_value(array.meminfo.type)
        array.parent = _cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, _types.BaseTuple):
        for i, of in enumerate(kind.types):
            if _holds_arrays(of):
                own = _uncounted(context, builder, of, builder.extract_value(value, i))
                value = builder.insert_value(value, own, i)
    return value


def _unsigned(kind: Any, given: Any) -> Any:
    """The type of an index that counts from the front, unless it is a negative constant."""
    backward = isinstance(given, _types.IntegerLiteral) and given.literal_value < 0
    return _types.uintp if isinstance(kind, _types.Integer) and not backward else kind


class _Lower(_lowering.Lower):  # type: ignore[misc]
    """Numba's own, but for what is not counted."""

    @property
    def _keeps_nothing(self) -> bool:
        return not _holds_arrays(self.fndesc.restype)

    def extract_function_arguments(self) -> Any:
        """The arguments."""
        values = super().extract_function_arguments()
        if self._keeps_nothing:
            kinds = self.fndesc.argtypes
            self.fnargs = [
                _uncounted(self.context, self.builder, kind, value) for kind, value in zip(kinds, values, strict=True)
            ]
        return self.fnargs

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """An expression: columns of structs are read here."""
        if expr.op == "getattr" and self._keeps_nothing:
            kind = self.typeof(expr.value.name)
            if isinstance(kind, _types.StructRef):
                struct = _structref._Utils(self.context, self.builder, kind)
                value = getattr(struct.get_data_struct(self.loadvar(expr.value.name)), expr.attr)
                own = kind.field_dict[expr.attr]
                value = _uncounted(self.context, self.builder, own, value)
                return self.context.cast(self.builder, value, own, resty)
        return super().lower_expr(resty, expr)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """An element of an array, or a part."""
        signature = self._from_the_front(signature, index)
        return super().lower_getitem(resty, expr, value, index, signature)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """An element of an array is set, or a part."""
        signature = self._from_the_front(signature, index_var)
        return super().lower_setitem(target_var, index_var, value_var, signature)

    def _from_the_front(self, signature: Any, index: Any) -> Any:
        """The signature of an index into an array in which whole numbers count from the front alone."""
        array, asked = signature.args[0], signature.args[1]
        if not isinstance(array, _types.Array):
            return signature
        given = self.typeof(index.name)
        parts, known = (asked.types, given.types) if isinstance(asked, _types.BaseTuple) else ((asked,), (given,))
        front = [_unsigned(part, of) for part, of in zip(parts, known, strict=True)]
        own = _types.Tuple(front) if isinstance(asked, _types.BaseTuple) else front[0]
        return signature.replace(args=(array, own, *signature.args[2:]))

    def incref(self, typ: Any, val: Any) -> None:
        """Of a struct nothing is counted."""
        if not isinstance(typ, _types.StructRef):
            super().incref(typ, val)

    def decref(self, typ: Any, val: Any) -> None:
        """Of a struct nothing is counted."""
        if not isinstance(typ, _types.StructRef):
            super().decref(typ, val)


@_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(_passes.BaseNativeLowering):  # type: ignore[misc]
    _name = "unrack_lowering"

    @property
    def lowering_class(self) -> Any:
        """What writes the code."""
        return _Lower


class KernelCompiler(_compiler.CompilerBase):  # type: ignore[misc]
    """Numba's own compiler, but for what is not counted."""

    def define_pipelines(self) -> list[Any]:
        """The usual passes, with one in place of another."""
        passes = _compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_Lowering, said) if one is _passes.NativeLowering else (one, said) for one, said in passes.passes
        ]
        self.add_passes(passes)
        passes.finalize()
        return [passes]

    def add_passes(self, passes: Any) -> None:
        """None more."""


class _NoEnvironment:
    """A code generator that is told of no environment: a part runs in that of the kernel that it is in."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing: there is no machine code to tell."""


class _PartLibrary(_codegen.JITCodeLibrary):  # type: ignore[misc]
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


@_machinery.register_pass(mutates_CFG=False, analysis_only=True)
class _IntoPart(_machinery.LoweringPass):  # type: ignore[misc]
    _name = "unrack_into_part"

    def __init__(self) -> None:
        _machinery.LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make the library before anything is written into it."""
        codegen = state.targetctx.codegen()
        state.library = _PartLibrary(codegen, state.func_id.func_qualname)
        return False


class PartCompiler(KernelCompiler):
    """The same for parts; their code goes into a library of theirs."""

    def add_passes(self, passes: Any) -> None:
        """One more."""
        passes.add_pass_after(_IntoPart, _passes.AnnotateTypes)
