"""The NumPy executor: slow, obvious, complete; the reference for all other executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import config, defects
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.devices import accelerator_among
from wend._engine.base.errors import DefectError, ModuleNotAvailable
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, Segment, Storage
from wend._engine.core._types import TensorType
from wend._engine.core.graph import Node, PathGraph, n_ops, path_at
from wend._engine.core.provenance import last_site, locate, site_of
from wend._engine.core.whole import Headroom
from wend._engine.runtime.donation import Lending
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.numpy_executor.runners import NodeRun, can_fail, run_plainly, steps_of
from wend._engine.transforms.differentiate import saved_ids
from wend._engine.transforms.history import note_history

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_turned(path: PathGraph) -> set[int]:
    """Return the products within a step of the path that are only read as their transpose.

    Such a product is computed so that the transpose lies row by row.  Adding the transpose element
    by element, as an optimizer does to a weight, then takes a tenth of the time.  The result does
    not depend on which other values are wanted.
    """
    products = set()
    for node in path.nodes:
        prim = node.prim
        if prim.is_view and node.inputs[0] < 0 and prim.attrs.get("dims") == (1, 0):
            producer = path.nodes[path.producer[node.inputs[0]]]
            if producer.prim.schedule.turns:
                products.add(node.inputs[0])
    if products:
        read = Counter([i for node in path.nodes for i in node.inputs if i in products])
        products = {i for i in products if read[i] == 1}
    return products


class ReferencePlan:
    """Steps in order, the values that each step frees, and the values for a later backward."""

    native_plan = None

    def __init__(self, path: PathGraph, wanted: frozenset[int], roots: frozenset[int]) -> None:
        self.wanted = wanted
        self.roots = roots
        #: The accelerator of the path's values; None if all lie on the processor.
        self.place = accelerator_among(path.types)
        self.prepare(path)

    def prepare(self, path: PathGraph) -> None:
        """Work out the steps that compute the wanted values."""
        wanted, roots = self.wanted, self.roots
        self.path: Any = None  # None until all is set: an interrupt may come in between
        self.saved = frozenset(saved_ids(path, roots)) if roots else frozenset()
        keep = wanted | self.saved
        needed = set(keep)
        steps = steps_of(path.nodes, needed, NodeRun)
        self.leaves = [i for i, _ in path.leaves if i in needed]
        self.grad_leaves = [i for i, grad in path.leaves if grad]
        self.steps: list[NodeRun] = steps
        self.n_ops = sum([n_ops(step.node) for step in steps]) if path.short else len(steps)
        turned = read_turned(path)
        if turned:
            for step in steps:
                step.turned = step.output in turned
        entering = set(self.leaves)
        self.lendable = [
            step.inputs[0]
            for step in steps
            if step.donates and step.inputs[0] in entering and hasattr(step.node.prim, "part")
        ]
        self.size = len(path.types) + path.inner
        self.path = path

    def shed(self) -> None:
        """Drop all parts that can be made again when the path comes back."""
        self.path = None
        self.steps = []
        self.saved = frozenset()

    def restore(self, batch: FlushJob, short: bool = True) -> None:
        """Make the parts again that `shed` has dropped.

        short: whether a path that keeps composites whole will do
        """
        if self.path is None or (self.path.short and not short):
            with CollectionPaused():
                self.prepare(path_at(batch.states, batch.values, batch.args))

    def run(self, batch: FlushJob) -> None:
        """Compute.  If an op refuses its values, mark failed values and undo later rebindings.

        Any other failure is noted as a defect, and all values are computed again from the leaves.
        """
        values = batch.values
        self.restore(batch)
        types = [v.type for v in values]
        env: list[Any] = Lending(self.size) if self.lendable else [None] * self.size
        volatile = False
        for i in self.leaves:
            env[i] = values[i].buffer
            volatile = volatile or values[i].extra is not None
        if isinstance(env, Lending):
            env.lend(batch, self.lendable)
        failure: BaseException | None = None
        try:
            with np.errstate(all="ignore"):
                if config.settings.verify:
                    self.compute_verified(env, types, batch.args)
                else:
                    launcher.in_lots(self.compute, env, types, batch.args)
        except BaseException as fault:
            if isinstance(env, Lending):
                env.put_back(batch)
            if is_interrupt(fault):
                raise
            failure = fault
        if failure is not None:  # no longer handled here: the context of an error is the program's
            try:
                with np.errstate(all="ignore"):
                    self._run_around_failures(batch, types, failure)
            finally:
                failure = None  # its frames hold this frame
            return
        try:
            self.hand_over(batch, env, volatile)
        except BaseException:  # leaves may have been written to: there is no way back
            with Headroom():
                self.hand_over(batch, env, volatile)
            raise

    def run_compiled(self, batch: FlushJob) -> str:
        """Return why this plan has no machine code."""
        return "compilation was off (WEND_COMPILE) when the path was planned"

    def run_reference(self, batch: FlushJob) -> None:
        """Compute: see `run`."""
        self.run(batch)

    def hand_over(self, batch: FlushJob, env: list[Any], volatile: bool) -> None:
        """Give the computed arrays to their values.

        volatile: whether the outside may write to the memory of a leaf
        """
        if volatile:
            self.part_from_memory(batch.values, env)
        self.finish(batch, env)

    def part_from_memory(self, values: list[Any], env: list[Any]) -> None:
        """Copy arrays that outlive this flush and lie in memory that the outside may write to."""
        memory = [values[i].buffer for i in self.leaves if values[i].extra is not None]
        for i in self.wanted | self.saved:
            array = env[i]
            if type(array) is np.ndarray and any(np.may_share_memory(array, m) for m in memory):
                env[i] = array.copy()

    def compute_verified(self, env: list[Any], types: list[Any], args: list[Any]) -> None:
        """Run the steps as `compute`, and check each result against its inferred type."""
        for step in self.steps:
            step.call(env, types, args)
            for i in step.outputs:
                if i >= 0:
                    check_type(step.node, np.asarray(env[i]), types[i])

    def compute(self, env: list[Any], types: list[Any], args: list[Any]) -> None:
        """Run the steps in order on the environment, the list of all arrays by value."""
        for step in self.steps:
            step.call(env, types, args)

    def finish(self, batch: FlushJob, env: list[Any]) -> None:
        """Hand the results to their values, after the segment: a held value has its segment."""
        values = batch.values
        roots = [i for i in self.roots if values[i].requires_grad and values[i].leaf is None]
        if roots:
            self._keep_segment(batch, env, roots)
        for i in self.wanted:
            value = values[i]
            if value.buffer is None and env[i] is not None:
                value.buffer = _as_array(env[i])

    def _keep_segment(self, batch: FlushJob, env: Sequence[Any], roots: list[int]) -> None:
        values = batch.values
        # The serial is taken at the end of the flush: a segment that this segment uses, perhaps of
        # another thread, is older.
        segment = Segment(_hot.fresh_serial(), self.path)
        segment.origin = batch.serial
        segment.types = [v.type for v in values]
        segment.args = batch.args
        segment.inputs = {i: _hot.slim(values[i]) for i in self.grad_leaves}
        saved = {}
        for i in self.saved:
            array = env[i]
            if array is None and i >= 0:
                array = values[i].buffer
                if values[i].extra is not None:
                    array = array.copy()
            if array is None and i < 0:
                continue  # an op before has failed: the results have errors, and no gradients
            array = _as_array(array)
            type_ = values[i].type if i >= 0 else _type_of_array(array, segment.types)
            saved[i] = (type_, array)
        segment.saved = saved
        if batch.extra is not None:
            segment.hooks = batch.extra
        segment.sites = batch.sites
        for i in roots:
            values[i].segment = segment
            values[i].seg_index = i
        note_history(segment, batch)

    # -- failures ---------------------------------------------------------------------------

    def run_plainly(self, batch: FlushJob) -> None:
        """Compute by reference rules alone, op by op: see `_run_around_failures`."""
        with np.errstate(all="ignore"):
            self._run_around_failures(batch, [v.type for v in batch.values])

    def _run_around_failures(
        self, batch: FlushJob, types: list[Any], fault: BaseException | None = None
    ) -> None:
        """Compute by reference rules alone all values that can be computed, and mark the rest.

        An op that refuses its values is the user's error, which undoes later rebindings.  The
        failure of a run whose ops can all be computed is a defect, and undoes nothing.

        fault: the failure of a faster run, or None
        """
        values = batch.values
        # Buffers that a failed run has handed over are complete, and its operands may be gone.
        env: list[Any] = [v.buffer for v in values] + [None] * self.path.inner
        failed: dict[int, BaseException] = {}
        first, first_at = self._attempt(self.steps, env, types, batch, failed)
        for i in self.wanted:
            # After a MemoryError there may be enough memory when the value is read.
            if i in failed and not isinstance(failed[i], MemoryError):
                values[i].error = failed[i]
        if first is not None:
            # Values that handles return to may be of no use but for that.
            needed = {old for _, old, at in batch.touched if type(old) is int and at >= first_at}
            steps = steps_of(self.path.nodes, needed, NodeRun)
            self._attempt(steps, env, types, batch, failed)
            undo(batch, env, failed, first_at)
            batch.touched.clear()
        self.finish(batch, env)
        if fault is not None and not (first is not None and defects.by_rule(fault)):
            self._note(fault, batch)
        if first is not None:
            raise first

    def _attempt(
        self,
        steps: Sequence[NodeRun],
        env: list[Any],
        types: list[Any],
        batch: FlushJob,
        failed: dict[int, BaseException],
    ) -> tuple[BaseException | None, int]:
        """Run the steps whose results are missing, by reference rules alone.

        env, failed: the arrays, and the errors, of values so far; those of the steps are added
        Returns the first error, and the index at which the op was recorded.
        """
        first: BaseException | None = None
        first_at = len(batch.values)
        for step in steps:
            cause = next((failed[i] for i in step.inputs if i in failed), None)
            if cause is None and all(env[i] is not None for i in step.outputs):
                continue
            if cause is None:
                try:
                    arrays = [env[i] for i in step.inputs]
                    args = [_types.evaluate(e, types, batch.args) for e in step.args]
                    results = run_plainly(step.node.program, arrays, args)
                    for i, item in zip(step.outputs, results, strict=True):
                        env[i] = item
                    continue
                except Exception as error:
                    if isinstance(error, RecursionError) or is_interrupt(error):
                        raise
                    cause = self._cause(step, error, batch)
                    if first is None:
                        first = cause
                        first_at = _position(step, self.path)
            for i in step.outputs:
                failed[i] = cause
        return first, first_at

    def _cause(self, step: NodeRun, error: Exception, batch: FlushJob) -> BaseException:
        """Return the error of an op, with the user's line; a DefectError if Wend is at fault.

        Neither too little memory nor a package that is not installed is Wend's fault.
        """
        name = step.node.prim.name
        if not isinstance(error, (MemoryError, ModuleNotAvailable)) and not (
            can_fail(step.node.program) and defects.by_rule(error)
        ):
            site = site_of(batch, step.outputs[0], self.path)
            told = defects.note(error, f"the rule of {name}", site, repaired=False)
            fault = DefectError(f"{name}: {told.error}; this is a defect of Wend")
            fault.__cause__ = error
            error = fault
        return locate(error, name, batch, step.outputs[0], self.path)

    def _note(self, fault: BaseException, batch: FlushJob) -> None:
        """Note a failure that did not come again by rules alone.

        Lack of memory, and recursion that is too deep, are not noted.
        """
        if isinstance(fault, (MemoryError, RecursionError)):
            return
        step = failing_step(fault)
        if step is None:
            defects.note(fault, site=last_site(batch.states, batch.sites))
            return
        site = site_of(batch, step.outputs[0], self.path)
        defects.note(fault, f"the step of {step.node.prim.name}", site)


def failing_step(fault: BaseException) -> NodeRun | None:
    """Return the step of a plan that was running when an exception was raised, or None."""
    at = fault.__traceback__
    while at is not None:
        step = at.tb_frame.f_locals.get("step")
        if type(step) is NodeRun:
            return step
        at = at.tb_next
    return None


def check_type(node: Node, array: NDArray[Any], type_: TensorType) -> None:
    """Raise DefectError if a rule gave an array of another type than the inferred type."""
    if array.dtype != type_.dtype.numpy or array.shape != tuple(type_.shape):
        raise DefectError(
            f"{node.prim.name}: inferred {type_.dtype}{list(type_.shape)}, but the reference rule "
            f"gave {array.dtype}{list(array.shape)}; this is a defect of Wend"
        )


def _position(step: NodeRun, path: PathGraph) -> int:
    """Return the index at which the failing op was recorded.

    For an op within a step, whose results have negative indices, this is the largest index before
    the op.
    """
    if step.outputs[0] >= 0:
        return step.outputs[0]
    count = 0
    for node in path.nodes:
        if node is step.node:
            break
        count = max([count, *[o for o in node.outputs if o >= 0]])
    return count


def undo(batch: FlushJob, env: list[Any], failed: dict[int, BaseException], position: int) -> None:
    """Return handles that were rebound since the failing op to the value from before that op.

    Data that several handles share returns in the same way; the handles follow at the next use.

    env: the arrays computed so far
    failed: the values that failed, with the errors
    position: the index at which the failing op was recorded
    """
    restored: set[int] = set()
    for handle, old, at in batch.touched:
        if at < position or id(handle) in restored:
            continue
        restored.add(id(handle))
        if isinstance(old, int):
            value = batch.values[old]
            if old in failed:
                continue
            if value.buffer is None and env[old] is not None:
                value.buffer = _as_array(env[old])
            old = value
        if isinstance(handle, Storage):
            handle.data = old
            handle.version += 1
        else:
            handle.value = old


def _as_array(array: object) -> NDArray[Any]:
    return array if type(array) is np.ndarray else np.asarray(array)


def _type_of_array(array: NDArray[Any], types: list[Any]) -> TensorType:
    from wend._engine.base.dtypes import from_numpy

    return _types.intern_type(tuple(array.shape), from_numpy(array.dtype), types[0].device)
