"""Writes docs/names.md: which of PyTorch's names bind on Wend. `python tests/surface/page.py`"""

from __future__ import annotations

import importlib
import sys
import textwrap
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from binding import Verdict, judge

from wend._tools.compat.differences import ON_PURPOSE, OUT_OF_SCOPE, out_of_scope

PAGE = Path(__file__).resolve().parents[2] / "docs" / "names.md"
HEAD = """# PyTorch's names, one by one

<!-- Made by `python tests/surface/page.py`; a test compares the page with PyTorch's tables. -->

The names and call forms of PyTorch {version} come from PyTorch itself: from the stub files of the
binary, the schemas of operators, `inspect.signature` and docstrings. A name is *there* if each of
those call forms binds on Wend: parameter names, order, defaults, keywords, overloads. Each method
of a class counts. All remaining names stand below, with the reason.

| namespace | names | there | differ on purpose | out of scope | to do |
|---|---|---|---|---|---|
"""


class Survey:
    """What became of each name and module of PyTorch's."""

    def __init__(self) -> None:
        import pytorch_tables as tables

        self.version = tables.torch.__version__.split("+")[0]
        self.namespaces = [*tables.NAMESPACES, "torch.Tensor"]
        names = tables.all_names()
        forms = tables.all_forms(names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.verdicts = [
                judge(name, forms.get(name, []), names[name], tables.torch)
                for name in sorted(names)
            ]
        self.absent_modules = [p for p in tables.module_paths() if not _there(p)]
        self.modules = len(tables.module_paths())

    def space_of(self, name: str) -> str:
        """The namespace that a name is counted in."""
        found = [space for space in self.namespaces if name.startswith(f"{space}.")]
        return max(found, key=len)

    @staticmethod
    def state_of(verdict: Verdict) -> str:
        """`there`, `on purpose`, `out of scope`, `missing` or `differs`."""
        if verdict.state == "there":
            return "there"
        if verdict.name in ON_PURPOSE and verdict.state == "differs":
            return "on purpose"
        return "out of scope" if out_of_scope(verdict.name) else verdict.state

    def counts(self) -> dict[str, Counter[str]]:
        """How many names of each namespace are in which state."""
        rows: dict[str, Counter[str]] = {}
        for verdict in self.verdicts:
            row = rows.setdefault(self.space_of(verdict.name), Counter())
            row[self.state_of(verdict)] += 1
        return dict(sorted(rows.items()))

    def unbound(self) -> dict[str, list[str]]:
        """Names of each namespace that are to come; a class without its members."""
        gone = {v.name for v in self.verdicts if self.state_of(v) == "missing"}
        rows: dict[str, list[str]] = {}
        for verdict in self.verdicts:
            to_come = self.state_of(verdict) in ("missing", "differs")
            if to_come and verdict.name.rpartition(".")[0] not in gone:
                space = self.space_of(verdict.name)
                rows.setdefault(space, []).append(verdict.name[len(space) + 1 :])
        return dict(sorted(rows.items()))


def _there(path: str) -> bool:
    """Whether Wend has a module at the same address."""
    try:
        importlib.import_module("wend" + path[len("torch") :])
    except ImportError:
        return False
    return True


@cache
def survey() -> Survey:
    """The survey of this process."""
    return Survey()


def page() -> str:
    """The text of the page."""
    found = survey()
    lines = [HEAD.format(version=found.version).rstrip()]
    total: Counter[str] = Counter()
    for space, row in found.counts().items():
        lines.append(_row(f"`{space}`", row))
        total += row
    lines += [
        _row("all", total),
        "",
        "## Out of scope",
        "",
        "| part | names | reason |",
        "|---|---|---|",
    ]
    left_out = Counter(
        out_of_scope(v.name) for v in found.verdicts if found.state_of(v) == "out of scope"
    )
    lines += [f"| {words} | {left_out[words]} | {reason} |" for words, _, reason in OUT_OF_SCOPE]
    lines += ["", "## Call forms that differ on purpose", "", "| name | reason |", "|---|---|"]
    differing = {v.name for v in found.verdicts if found.state_of(v) == "on purpose"}
    lines += [f"| `{n}` | {ON_PURPOSE[n].reason} |" for n in sorted(differing)]
    lines += ["", "## Names to come", "", "A class in these lists stands for its methods.", ""]
    for space, names in found.unbound().items():
        lines += [f"**{space}**: {', '.join(names)}", ""]
    absent = [p for p in found.absent_modules if not out_of_scope(p)]
    there = found.modules - len(found.absent_modules)
    lines += [
        "## Modules",
        "",
        f"PyTorch has {found.modules} public modules. {there} modules can be imported, and "
        f"{len(absent)} are to come; all remaining modules are out of scope. An import of an "
        "absent module raises an error with the full name.",
        "",
        "```text",
        *textwrap.wrap(" ".join(absent), 100, break_on_hyphens=False),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _row(words: str, row: Counter[str]) -> str:
    to_do = row["missing"] + row["differs"]
    cells = (sum(row.values()), row["there"], row["on purpose"], row["out of scope"], to_do)
    return f"| {words} | {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
