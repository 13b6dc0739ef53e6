"""Forty programs with a planted cause: the first sentence of the answer names it."""

import pytest
from tests.debugging.causes import CAUSES

from wend import debug

pytestmark = pytest.mark.usefixtures("own_trie", "groups_alone")


def test_there_are_forty():
    assert len(CAUSES) >= 40


def first_sentence(name):
    answer = CAUSES[name].answer()
    answer = answer[0] if isinstance(answer, tuple) else answer
    if isinstance(answer, debug.WhySlow):
        return f"{answer.reasons[0].kind}: {answer.reasons[0].text}" if answer else str(answer)
    return " ".join(str(answer).split("\n")[:3])  # a count and a line stand before and behind


@pytest.mark.parametrize("name", CAUSES)
def test_the_first_sentence_names_the_cause(name):
    """Shares are of the clock: where other work takes all calls of a step, it is asked again."""
    for _ in range(3):
        sentence = first_sentence(name)
        missing = [word for word in CAUSES[name].words if word not in sentence]
        if not missing:
            return
    pytest.fail(f"{missing} not in: {sentence}")
