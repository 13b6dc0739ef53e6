"""The names of PyTorch's that a file uses, with the lines.

Imports and assignments give local names a meaning: a dotted name (`torch.nn.functional`), or a
tensor, where a function that makes tensors or an annotation says so. Branches that disagree leave
a name without a meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from wend._tools.compat import lookup

TORCH: Final = "torch"
_TENSOR: Final = "a tensor"  # the meaning of names of tensors; no dotted name has blanks
_CAUGHT: Final = frozenset(
    ("ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException")
)
_PROBES: Final = ("is_available", "is_initialized", "is_built")


@dataclass(frozen=True)
class Use:
    """A place at which a program uses a name of PyTorch's."""

    name: str
    line: int
    guarded: bool  # the program asks for the name, or catches the error
    positional: int | None = (
        None  # arguments of a call, a lower limit; None where nothing is called
    )
    keywords: tuple[str, ...] = ()


def uses(tree: ast.Module) -> list[Use]:
    """Return the uses in a file, in the order of lines."""
    reader = _Reader()
    reader.block(tree.body)
    asked = tuple(reader.asked)
    unique_uses = [
        replace(use, guarded=use.guarded or _below(use.name, asked))
        for use in dict.fromkeys(reader.found)
    ]
    return sorted(unique_uses, key=lambda use: (use.line, use.name))


def _below(name: str, owners: Iterable[str]) -> bool:
    return any(name == owner or name.startswith(f"{owner}.") for owner in owners)


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.names: dict[str, str | None] = {}
        self.found: list[Use] = []
        self.asked: set[str] = set()  # names that hasattr asks for, anywhere in the file
        self.guards = 0

    # --- meanings --------------------------------------------------------------

    def meaning(self, node: ast.expr | None) -> str | None:
        """Return the dotted name, or that the expression is a tensor, or None."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.meaning(node.value)
            if owner is None:
                return None
            name = f"{lookup.TENSOR if owner is _TENSOR else owner}.{node.attr}"
            return _TENSOR if owner is _TENSOR and lookup.is_property(name) else name
        if isinstance(node, ast.Call):
            called = self.meaning(node.func)
            makes = called not in (None, _TENSOR) and lookup.returns_tensor(str(called))
            return _TENSOR if makes else None
        if isinstance(node, ast.BinOp):
            sides = (self.meaning(node.left), self.meaning(node.right))
            return _TENSOR if _TENSOR in sides else None
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return _TENSOR if self.meaning(node.operand) is _TENSOR else None
        if isinstance(node, ast.Subscript):
            return _TENSOR if self.meaning(node.value) is _TENSOR else None
        return None

    def annotated(self, annotation: ast.expr | None) -> str | None:
        text = annotation
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            try:
                text = ast.parse(text.value, mode="eval").body
            except SyntaxError:
                # An annotation that is a text of other sense: no type is taken from there.
                return None
        return _TENSOR if self.meaning(text) == lookup.TENSOR else None

    def note(self, name: str, line: int) -> None:
        self.found.append(Use(name, line, self.guards > 0))

    def bind(self, target: ast.expr, meaning: str | None) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = meaning
            return
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self.bind(part.value if isinstance(part, ast.Starred) else part, None)
        elif not isinstance(target, ast.Starred):
            self.visit(target)

    # --- blocks ----------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def branches(self, *bodies: Iterable[ast.stmt]) -> None:
        """Read alternatives; names whose meanings disagree afterwards have none."""
        before, after = self.names, []
        for body in bodies:
            self.names = dict(before)
            self.block(body)
            after.append(self.names)
        names = {name for branch in after for name in branch}
        self.names = {}
        for name in names:
            meanings = {branch[name] for branch in after if branch.get(name) is not None}
            unknown = any(name in branch and branch[name] is None for branch in after)
            tensor = _TENSOR in meanings and unknown
            self.names[name] = meanings.pop() if len(meanings) == 1 and not tensor else None

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        only_read = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        probed = any(
            isinstance(part, ast.Call)
            and (name := self.meaning(part.func)) is not None
            and name.startswith(TORCH)
            and name.endswith(_PROBES)
            for part in ast.walk(node.test)
        )
        self.guards += only_read or probed
        self.branches(node.body, node.orelse)
        self.guards -= only_read or probed

    def visit_Try(self, node: ast.Try) -> None:
        caught = {
            part.id if isinstance(part, ast.Name) else part.attr
            for handler in node.handlers
            for part in ast.walk(handler.type or ast.Name("Exception"))
            if isinstance(part, ast.Name | ast.Attribute)
        }
        self.guards += bool(caught & _CAUGHT)
        self.block(node.body)
        self.guards -= bool(caught & _CAUGHT)
        self.branches(node.orelse, *(handler.body for handler in node.handlers))
        self.block(node.finalbody)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        over_tensor = self.meaning(node.iter) is _TENSOR
        self.bind(node.target, _TENSOR if over_tensor else None)
        self.branches(node.body, ())
        self.block(node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self.branches(node.body, ())
        self.block(node.orelse)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, None)
        self.block(node.body)

    visit_AsyncWith = visit_With

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.block_of_expressions(node.decorator_list)
        self.visit(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self.names[node.name] = None
        self.scope(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self.scope(node.args, [ast.Expr(node.body)])

    def scope(self, args: ast.arguments, body: list[ast.stmt]) -> None:
        """Read a function's body with names of its own."""
        outer = self.names
        self.names = dict(outer)
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        for arg in every:
            if arg is not None:
                several = arg in (args.vararg, args.kwarg)
                self.names[arg.arg] = None if several else self.annotated(arg.annotation)
        self.block(body)
        self.names = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.block_of_expressions([*node.decorator_list, *node.bases])
        self.block_of_expressions([keyword.value for keyword in node.keywords])
        outer = self.names
        self.names = dict(outer)
        self.block(node.body)
        self.names = outer
        self.names[node.name] = None

    def block_of_expressions(self, nodes: Iterable[ast.expr]) -> None:
        for node in nodes:
            self.visit(node)

    # --- statements ------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.split(".")[0]
            name = alias.name if alias.asname else top
            self.names[alias.asname or top] = name if top == TORCH else None
            if top == TORCH:
                self.note(alias.name, node.lineno)
            if alias.name == "wend":  # `import wend as torch`
                self.names[alias.asname or top] = TORCH

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        ours = not node.level and (node.module or "").split(".")[0] in (TORCH, "wend")
        owner = TORCH + (node.module or "").removeprefix("wend").removeprefix(TORCH)
        for alias in node.names:
            if alias.name == "*":
                if ours:
                    self.note(owner, node.lineno)
                continue
            name = f"{owner}.{alias.name}"
            self.names[alias.asname or alias.name] = name if ours else None
            if ours:
                self.note(name, node.lineno)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        meaning = self.meaning(node.value)
        for target in node.targets:
            self.bind(target, meaning)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self.bind(node.target, self.annotated(node.annotation) or self.meaning(node.value))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.bind(node.target, self.meaning(node.value))

    # --- expressions -----------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> None:
        owner = self.meaning(node.value)
        if owner is None:
            self.visit(node.value)
        elif owner is _TENSOR:
            self.visit(node.value)
            if isinstance(node.ctx, ast.Load):
                self.note(f"{lookup.TENSOR}.{node.attr}", node.lineno)
        elif isinstance(node.ctx, ast.Load) and owner.split(".")[0] == TORCH:
            self.note(f"{owner}.{node.attr}", node.lineno)

    def visit_Name(self, node: ast.Name) -> None:
        """Names alone were noted where imports bound these."""

    def visit_Call(self, node: ast.Call) -> None:
        called = self.meaning(node.func)
        if called not in (None, _TENSOR):
            words = tuple(k.arg for k in node.keywords if k.arg is not None)
            n = sum(not isinstance(argument, ast.Starred) for argument in node.args)
            self.found.append(Use(str(called), node.lineno, self.guards > 0, n, words))
        if isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            self.asks(node)
        self.generic_visit(node)

    def asks(self, node: ast.Call) -> None:
        """`hasattr(torch, "x")` guards all uses of torch.x in the file; `getattr` is a use."""
        owner = self.meaning(node.args[0]) if node.args else None
        word = node.args[1] if len(node.args) > 1 else None
        if owner is None or not isinstance(word, ast.Constant) or not isinstance(word.value, str):
            return
        name = f"{lookup.TENSOR if owner is _TENSOR else owner}.{word.value}"
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) == 2:
            self.note(name, node.lineno)
        else:
            self.asked.add(name)

    def comprehension(self, node: ast.expr, parts: list[ast.expr]) -> None:
        outer = self.names
        self.names = dict(outer)
        for generator in getattr(node, "generators", ()):
            self.visit(generator.iter)
            over_tensor = self.meaning(generator.iter) is _TENSOR
            self.bind(generator.target, _TENSOR if over_tensor else None)
            self.block_of_expressions(generator.ifs)
        self.block_of_expressions(parts)
        self.names = outer

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self.comprehension(node, [node.elt])

    visit_SetComp = visit_ListComp
    visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.comprehension(node, [node.key, node.value])
