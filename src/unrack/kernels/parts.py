"""Functions that only kernels call, for numba: put into the code of their callers, never machine code by themselves.

Numba optimises every function that it compiles and turns it into machine code, also those that it then only copies
into the kernels that call them, where they are optimised again. Without the first of the two a first use takes a
quarter to a third less time. What this rests on is the way numba lets a compiler be put together of passes, and its
code library.
"""

from __future__ import annotations

from typing import Any

import numba.core.codegen
import numba.core.compiler
import numba.core.compiler_machinery
import numba.core.typed_passes

_codegen: Any = numba.core.codegen
_compiler: Any = numba.core.compiler
_machinery: Any = numba.core.compiler_machinery
_passes: Any = numba.core.typed_passes


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


class PartCompiler(_compiler.CompilerBase):  # type: ignore[misc]
    """Numba's own compiler, but for the library that code goes into."""

    def define_pipelines(self) -> list[Any]:
        """The usual passes and one more."""
        passes = _compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_IntoPart, _passes.AnnotateTypes)
        passes.finalize()
        return [passes]
