"""The reasons why a graph cannot become a library, with the user's line and a remedy."""

from __future__ import annotations

from wend._engine.base.errors import CompileError
from wend._engine.core.provenance import Site
from wend._engine.transforms.exploring.program import Apply, Give, StaticGraph

__all__ = ["check", "refuse"]


def refuse(message: str, site: Site | None = None) -> CompileError:
    """Return the error of a function that cannot be compiled, with the user's line."""
    place = "" if site is None or site.code is None else f" (at {site})"
    return CompileError(f"aot.compile: {message}{place}")


def check(program: StaticGraph) -> None:
    """Raise CompileError for programs that no library can run."""
    counts = set()
    captured = {c.id: c.name for c in program.captured}
    for _, _, stretch in program.stretches():
        for item in stretch.items:
            if isinstance(item, Apply) and item.prim.facts.random:
                raise refuse(
                    f"{item.prim} draws random numbers; call eval() on the module first, or give "
                    "the numbers as an input",
                    item.site,
                )
        if isinstance(stretch.end, Give):
            counts.add(len(stretch.end.leaves))
            for target, _ in stretch.end.writes:
                _refuse_write(captured.get(target))
    if len(counts) > 1:
        raise refuse("the function returns unlike numbers of tensors; return as many on each way")


def _refuse_write(name: str | None) -> None:
    if name is None:
        raise refuse(
            "the function writes into an argument, and a library does not; compute a new tensor, "
            "such as x.clone(), first"
        )
    named = "a tensor from outside" if name.startswith("constant") else name
    raise refuse(
        f"the function writes into {named}, and a library keeps its weights; call eval() on the "
        "module first, or return the new value"
    )
