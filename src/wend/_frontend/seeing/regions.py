"""The regions of a static graph: the ops behind an answer to a question, and the loops."""

from __future__ import annotations

import re

from wend._frontend.seeing.op_graph import OpGraph, OpNode

__all__ = ["Regions"]

#: A branch as nodes have it: the id of the question and the answer.
BRANCH = re.compile(r"%(?P<asked>\d+) (?P<answer>true|false)")
#: The head of a statement that asks, without its colon.
ASKING = re.compile(r"(?:if|elif|while|for|assert)\b[^#]*?(?=:?\s*(?:#.*)?$)")

#: (id of the question, answer); the answer is "" for the whole of the question.
Region = tuple[int, str]


class Regions:
    """Which region each op of a static graph lies in.

    The answers of an `if` are regions, and so is the answer with which a loop goes on. All that
    comes after a loop lies around the loop.
    """

    def __init__(self, graph: OpGraph) -> None:
        self.nodes = graph.nodes
        self.merges: dict[int, int] = {}  # merge of a loop -> its question
        self.turns: dict[int, set[str]] = {}  # question of a loop -> answers that go on
        for node in graph.nodes:
            if node.op == "while":
                self.note_loop(node)

    def note_loop(self, asked: OpNode) -> None:
        """Note which values a loop carries, and which answers go on."""
        turns: set[str] = set()
        at = asked.id - 1
        while at >= 0 and self.nodes[at].op == "merge" and self.nodes[at].branch == asked.branch:
            self.merges[at] = asked.id
            for i in self.nodes[at].inputs:
                if i > asked.id:
                    turns |= {key[1] for key in self.answers(self.nodes[i]) if key[0] == asked.id}
            at -= 1
        self.turns[asked.id] = turns or {"true"}

    def answers(self, node: OpNode) -> list[Region]:
        """The answers under which a node is computed, the latest first."""
        chain = []
        while match := BRANCH.fullmatch(node.branch):
            number = int(match["asked"])
            if number >= node.id or number >= len(self.nodes):
                break  # of another graph, of which this is a part
            chain.append((number, match["answer"]))
            node = self.nodes[number]
        return chain

    def of(self, node: OpNode) -> Region | None:
        """The innermost region of a node; None outside of all."""
        if node.op in ("if", "while"):
            return node.id, ""
        if node.id in self.merges:
            return self.merges[node.id], ""
        for number, answer in self.answers(node):
            if self.is_inside(number, answer):
                return number, answer
        return None

    def is_inside(self, number: int, answer: str) -> bool:
        asked = self.nodes[number]
        return asked.op == "if" or (asked.op == "while" and answer in self.turns[number])

    def around(self, region: Region) -> Region | None:
        """The region around a region."""
        number, answer = region
        if answer:
            return number, ""
        return next((x for x in self.answers(self.nodes[number]) if self.is_inside(*x)), None)

    def label(self, number: int) -> str:
        """The user's words for a question."""
        asked = self.nodes[number]
        match = ASKING.match(asked.source)
        return match[0].strip() if match else f"{asked.op} {asked.numbers}".strip()
