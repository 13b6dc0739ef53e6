"""wend.session: a static graph that is fed by name, with state and kernels."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, FormatError, GraphError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor, Value
from wend._engine.transforms.exploring.program import Give, StaticGraph
from wend._frontend.autograd.grad_modes import no_grad
from wend._frontend.static.graph_runner import GraphRunner, copied, fed_value, is_array
from wend.export import _session_files as files
from wend.export._program import ExportedProgram, GraphText, check_inputs, export

__all__ = ["Session", "load_session", "session"]


class Session:
    """A static graph that is fed by name, with a copy of all parameters and buffers.

        session = wend.session(model, torch.randn(8, 64), input_names=["x"])
        scores = session.run({"x": images})       # or session(x=images), or session(images)

    Several threads may call a session at once. Calls of a graph that writes to buffers take turns.
    Nothing is recorded, and no gradients flow. Results are tensors whose memory nobody else has.
    `wend.session` makes sessions, and `wend.load_session` opens saved sessions.
    """

    def __init__(
        self,
        exported: ExportedProgram,
        arguments: Sequence[str],
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        kernels: files.SavedKernels | None = None,
    ) -> None:
        """arguments: names of the function's positional arguments"""
        graph = exported.program
        self._exported = exported
        self._op = f"session {graph.name}"
        self._arguments = _arguments(graph, arguments)
        self._inputs = _input_names(self._op, graph, self._arguments, input_names)
        self._outputs = _output_names(self._op, graph, output_names)
        self._kernels = kernels or files.SavedKernels("The kernels are made here.")
        self._runner: GraphRunner | None = GraphRunner(graph, self._kernels.offer)
        #: Whether the function's arguments are the inputs, in order.
        self._plain = len(self._arguments) == len(self._inputs) and not graph.constants

    @property
    def input_names(self) -> list[str]:
        """The names of the tensors that `run` is fed with."""
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        """The names of the results, in order."""
        return list(self._outputs)

    def _static_graph(self) -> StaticGraph:
        return self._exported.program

    @property
    def graph(self) -> GraphText:
        """The graph; printed, it shows ops, branches, loops and the user's lines."""
        return self._exported.graph

    @property
    def report(self) -> str:
        """How large the graph is, and where the kernels come from, as text."""
        parts = sum(1 for part in self._open().all_parts() if part.results)
        graph = self._exported.program
        size = f"{graph.name}: {graph.n_ops()} ops, {len(graph.points)} points, {parts} parts"
        return f"{size}\n{self._kernels.told()}"

    # -- running ----------------------------------------------------------------------------

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> Any:
        """The function's result for these inputs; with `outputs`, a list of the named results.

        feeds: by name, a tensor or NumPy array per input
        Raises ArgumentError for names, dtypes and sizes that do not fit, GraphError where the
        session is closed, and the errors of the function.
        """
        inputs = [feeds[name] for name in self._inputs if name in feeds]
        if len(inputs) != len(self._inputs) or len(inputs) != len(feeds):
            self._refuse_names(feeds)
        return self._run(inputs, outputs)

    def __call__(self, *args: object, **named: object) -> Any:
        """The function's result, given arguments, or inputs by name."""
        if self._plain and not named and len(args) == len(self._inputs):
            return self._run(args, None)
        return self.run(self._feeds(args, named))

    def _run(self, inputs: Sequence[Any], outputs: Sequence[str] | None) -> Any:
        runner = self._open()
        values = [self._value(k, x) for k, x in enumerate(inputs)]
        types = tuple([v.type for v in values])
        if types not in runner.checked:
            labels = [f"input {name!r}" for name in self._inputs]
            check_inputs(self._exported, self._op, labels, types)
            runner.check(values)
        leaves, structure = runner.run(values, inputs)
        if outputs is None:
            return leaves[0] if structure.kind is None else tree.unflatten(structure, leaves)
        by_name = dict(zip(self._outputs, leaves, strict=False))
        missing = [name for name in outputs if name not in by_name]
        if missing:
            raise ArgumentError(
                f"{self._op}: no result is called {missing[0]!r}; the results are "
                f"{_listed(by_name)}"
            )
        return [by_name[name] for name in outputs]

    def _value(self, k: int, x: object) -> Value:
        """The value of a fed tensor or array."""
        try:
            return fed_value(x)
        except TypeError as fault:
            raise ArgumentTypeError(f"{self._op}: input {self._inputs[k]!r} is {fault}") from fault

    def _open(self) -> GraphRunner:
        if self._runner is None:
            raise GraphError(
                f"{self._op}: the session is closed; open its file again with wend.load_session, "
                "or make a new session"
            )
        return self._runner

    def _refuse_names(self, feeds: Mapping[str, Any]) -> None:
        """Raise ArgumentError for feeds with names that are missing or unknown."""
        unknown = [name for name in feeds if name not in self._inputs]
        if unknown:
            raise ArgumentError(
                f"{self._op}: no input is called {unknown[0]!r}; the inputs are "
                f"{_listed(self._inputs)}"
            )
        missing = [name for name in self._inputs if name not in feeds]
        raise ArgumentError(
            f"{self._op}: input {missing[0]!r} is missing; the inputs are {_listed(self._inputs)}"
        )

    def _feeds(self, args: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        """The inputs by name, given the function's arguments, or inputs by name."""
        names = [name for name, _, _ in self._arguments]
        if len(args) > len(names):
            raise ArgumentError(
                f"{self._op}: takes {len(names)} arguments ({_listed(names)}), and got {len(args)}"
            )
        arguments = {**dict(zip(names, args, strict=False))}
        feeds = {name: x for name, x in named.items() if name in self._inputs}
        for name, x in named.items():
            if name in arguments:
                raise ArgumentError(f"{self._op}: argument {name!r} is given twice")
            if name not in feeds:
                arguments[name] = x
        for name, x in arguments.items():
            row = next((row for row in self._arguments if row[0] == name), None)
            if row is None:
                self._refuse_names({name: x})
                continue
            self._feed_argument(row, x, feeds)
        return feeds

    def _feed_argument(self, row: tuple[str, Any, int], x: object, feeds: dict[str, Any]) -> None:
        """Add the tensors of an argument to the feeds, and compare the constants."""
        name, wanted, first = row
        constants = self._exported.program.constants
        leaves, structure = tree.flatten(x)
        if structure != wanted:
            raise ArgumentError(
                f"{self._op}: argument {name!r} is of the structure {wanted}, and got {structure}"
            )
        at = first - sum(1 for k in constants if k < first)
        for k, leaf in enumerate(leaves, first):
            if k not in constants:
                feeds[self._inputs[at]] = leaf
                at += 1
            elif is_array(leaf) or leaf != constants[k]:
                raise ArgumentError(
                    f"{self._op}: argument {name!r} was {constants[k]!r} in the example, and is "
                    f"{leaf!r} now: what is no tensor is a constant of the graph"
                )

    # -- state ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the session's parameters and buffers, by name."""
        runner = self._open()
        return {
            c.name: _hot.wrap(copied(runner.state[c.id]))
            for c in self._exported.program.captured
            if c.kind != "constant"
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take copies of these tensors as parameters and buffers; calls under way keep the old.

        Raises ArgumentError for names, dtypes and shapes that are not those of the session.
        """
        runner = self._open()
        rows = {c.name: c.id for c in self._exported.program.captured if c.kind != "constant"}
        if rows.keys() != state.keys():
            odd = sorted(rows.keys() ^ state.keys())
            raise ArgumentError(f"{self._op}: load_state_dict: {odd[0]!r} is missing or unknown")
        for name, number in rows.items():
            old, new = runner.state[number].type, state[name]
            if new.dtype is not old.dtype or tuple(new.shape) != tuple(old.shape):
                raise ArgumentError(
                    f"{self._op}: load_state_dict: {name} is {old.dtype}{list(old.shape)}, and got "
                    f"{new.dtype}{list(new.shape)}"
                )
        runner.set_state({number: state[name] for name, number in rows.items()})

    def prepare(self) -> None:
        """Make the kernels of all parts now, for the patterns of the example and of past calls.

        Otherwise a part is computed by NumPy, and compiled in the background, until the kernels
        are ready. Nothing is compiled where a file has brought the kernels along.
        """
        files.compiled_parts(self._open())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write graph, state and kernels to a file, for `wend.load_session`.

        The kernels of all parts are made first, as `prepare` does.
        Raises FormatError for constants that no file can hold, such as objects among the arguments.
        """
        runner, graph = self._open(), self._exported.program
        with runner.turns:
            captured = [
                replace(c, tensor=_hot.wrap(copied(runner.state[c.id]))) for c in graph.captured
            ]
        exported = ExportedProgram(replace(graph, captured=captured), self._exported.dims)
        names = {
            "inputs": self._inputs,
            "outputs": self._outputs,
            "arguments": [name for name, _, _ in self._arguments],
        }
        files.write(path, exported, names, runner, self._kernels.offer)

    def close(self) -> None:
        """Let go of state and kernels; further calls raise GraphError."""
        self._runner = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self._inputs), ", ".join(self._outputs)
        return f"<{self._op}({inputs}) -> {outputs}>"


def session(
    fn: Callable[..., Any] | ExportedProgram,
    *example_inputs: object,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    example_kwargs: dict[str, Any] | None = None,
) -> Session:
    """A session of a module or function: a graph that is built once, with branches and loops.

    fn: the function; or an ExportedProgram, which needs no examples
    example_inputs, example_kwargs: arguments whose types and sizes matter, and not values
    input_names: of the tensors among the arguments, in order; by default those of the arguments,
    with ".0", ".key" for parts of these
    output_names: of the results, in order; by default "output", or "output_0", "output_1" ...
    dynamic_shapes: as in `torch.export.export`

    The session takes copies of parameters and buffers. The mode of a module is kept as at this
    call: call `eval()` first for predictions.
    Raises ExploreError, with line and remedy, where the function has no static graph.
    """
    if isinstance(fn, ExportedProgram):
        if example_inputs or example_kwargs or dynamic_shapes is not None:
            raise ArgumentError("session: an ExportedProgram takes no examples and dynamic_shapes")
        return Session(fn, [], input_names, output_names)
    with no_grad():
        exported = export(fn, example_inputs, example_kwargs, dynamic_shapes=dynamic_shapes)
    try:
        parameters = inspect.signature(getattr(fn, "forward", fn)).parameters
    except (TypeError, ValueError):
        # A callable without a signature: the arguments are named by position.
        parameters = {}  # type: ignore[assignment]
    plain = [p.name for p in parameters.values() if p.kind < p.VAR_POSITIONAL]
    return Session(exported, plain, input_names, output_names)


def load_session(path: str | os.PathLike[str], *, kernels: bool = True) -> Session:
    """The session in a file: nothing is traced, and where the kernels fit, nothing is compiled.

    path: a file of `Session.save`, or of `torch.export.save`, which has no kernels
    kernels: whether to use the machine code in the file, which is done only where this user's key
    has signed it; else kernels are made here, from the graph

    Raises FormatError for files that are damaged, or of a later version.
    """
    exported, names, saved = files.read(path, kernels)
    inputs, outputs = names.get("inputs"), names.get("outputs")
    try:
        return Session(exported, names.get("arguments", []), inputs, outputs, saved)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FormatError(f"load_session: the file is damaged: {error}") from error


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _arguments(graph: StaticGraph, names: Sequence[str]) -> list[tuple[str, tree.Structure, int]]:
    """Name, structure and first leaf of each argument of the function."""
    args, named = graph.structure.children
    rows = list(zip(names, args.children, strict=False))
    rows += [(f"input_{k}", args.children[k]) for k in range(len(rows), len(args.children))]
    rows += list(zip(named.context, named.children, strict=True))
    arguments, at = [], 0
    for name, structure in rows:
        arguments.append((name, structure, at))
        at += structure.leaves
    return arguments


def _paths(name: str, structure: tree.Structure) -> list[str]:
    """Names of the leaves of an argument."""
    if structure.kind is None:
        return [name]
    keys: Iterable[Any] = range(len(structure.children))
    if structure.kind in (dict,) or hasattr(structure.kind, "_fields"):
        keys = getattr(structure.kind, "_fields", structure.context)
    rows = zip(keys, structure.children, strict=True)
    return [path for key, child in rows for path in _paths(f"{name}.{key}", child)]


def _input_names(
    op: str,
    graph: StaticGraph,
    arguments: Sequence[tuple[str, tree.Structure, int]],
    user_names: Sequence[str] | None,
) -> list[str]:
    """The names of the tensors among the arguments."""
    paths = [path for name, structure, _ in arguments for path in _paths(name, structure)]
    names = [path for k, path in enumerate(paths) if k not in graph.constants]
    return _checked(op, "input", names, user_names)


def _output_names(op: str, graph: StaticGraph, user_names: Sequence[str] | None) -> list[str]:
    """The names of the results."""
    n = max([len(s.end.leaves) for _, _, s in graph.stretches() if isinstance(s.end, Give)] or [0])
    names = ["output"] if n == 1 else [f"output_{k}" for k in range(n)]
    return _checked(op, "output", names, user_names)


def _checked(op: str, kind: str, names: list[str], user_names: Sequence[str] | None) -> list[str]:
    """The given names, or else `names`.  Raises ArgumentError for a wrong number of names."""
    if user_names is None:
        return names
    texts = [str(name) for name in user_names]
    if len(texts) != len(names) or len(set(texts)) != len(texts):
        raise ArgumentError(
            f"{op}: {kind}_names: {len(names)} different names are needed, one per {kind}, and got "
            f"{_listed(texts)}"
        )
    return texts
