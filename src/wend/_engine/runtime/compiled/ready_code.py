"""Machine code for single ops, for visits that a path's machine code does not serve yet.

An op gets a compiled plan of its own, if the installation has brought along all kernels of the
plan.  Nothing is compiled here.  Partition, memory and layouts are those of any compiled plan.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.devices import CPU
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.llvm_ir import jit, ready_objects
from wend._engine.compiler.stages import CompiledPath, finished
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob
from wend._engine.core.graph import Node, PathGraph
from wend._engine.core.symbolic import ARG
from wend._engine.runtime.compiled.plan import CompiledPlan, kernel_texts, planning_of
from wend._engine.runtime.numpy_executor.plan import ReferencePlan


class ReadyCode:
    """A function that runs an op on arrays and run-time args.

    The function returns None if the rule in NumPy has to run: there is no machine code, or none for
    these sizes.

    program: the pattern of the op
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self.dtypes = [type_.dtype for type_ in program.sample_types]
        self.single = program.prim.result_wrap() is None
        self.plan: CompiledPlan | None = None
        path = path_of(program)
        self.reference = ReferencePlan(path, frozenset(path.producer), frozenset())
        self.code: CompiledPath | None = None  # of a plan that waits for LLVM
        if jit.obstacle() is None:
            code = finished(planning_of(self.reference))
            if came_along(code):
                self.code = code

    def __call__(self, arrays: list[Any], args: list[Any]) -> Any:
        """Return the result, the results of an op that has several, or None."""
        if self.plan is None and not self.find():
            return None
        assert self.plan is not None
        pairs = zip(arrays, self.dtypes, strict=True)
        types = [_types.intern_type(array.shape, dtype, CPU) for array, dtype in pairs]
        results = [_hot.held(t, None) for t in self.program.out_types(types, args)]
        values = [_hot.held(t, array) for t, array in zip(types, arrays, strict=True)]
        if not self.plan.run(FlushJob([], values + results, args, None, None, 0, [], None)):
            return None
        return results[0].buffer if self.single else [value.buffer for value in results]

    def find(self) -> bool:
        """Return whether the kernels are linked; if so, there is a plan from now on.

        LLVM links nothing while it compiles, and nobody waits for that.
        """
        if self.code is None:
            return False
        libraries: dict[str, Any] = {}
        for text, names in kernel_texts(self.code).items():
            library = jit.find_module(text, names)
            if library is None:
                return False
            libraries[text] = library
        self.plan = CompiledPlan(self.reference, self.code, libraries)
        self.code = None
        return True


def came_along(code: CompiledPath) -> bool:
    """Return whether the installation has brought kernels that compute all of a path."""
    host = jit.host()
    return all(isinstance(step, Kernel) for step in code.steps) and all(
        ready_objects.has(text, host.triple, host.names) for text in kernel_texts(code)
    )


def path_of(program: Any) -> PathGraph:
    """Return a pattern as a path of a single op, whose operands are the leaves."""
    n = len(program.sample_types)
    path = PathGraph([], [], [])
    path.types = [*program.sample_types]
    path.types += program.out_types(path.types, list(program.sample_args))
    outputs = tuple(range(n, len(path.types)))
    args = tuple([(ARG, k) for k in range(len(program.sample_args))])
    path.nodes = [Node(program.prim, program, tuple(range(n)), outputs, args, False)]
    path.n_nodes = 1
    path.producer = dict.fromkeys(outputs, 0)
    path.leaves = [(i, 0) for i in range(n)]
    return path
