"""Rule: provenance. Errors name the user's line; a state's cached site is compared, not trusted."""

from __future__ import annotations

import inspect

import pytest
from disabling import slot_replaced

import wend as torch
from tries import own_trie
from wend._engine.core import _hot, provenance
from wend._engine.transforms import history

GOOD, BAD = torch.tensor([1]), torch.tensor([9])


def line_of(function, text: str) -> str:
    """`file:line` of the line of `function` that holds `text`."""
    source, first = inspect.getsourcelines(function)
    return f"{__file__}:{first + next(k for k, line in enumerate(source) if text in line)}"


@pytest.fixture
def trusting(monkeypatch):
    """Switch the rule off: the site that a state remembers is taken to be that of each visit."""
    real = provenance.site_of

    def cached(batch, index, path):
        first_visit = _hot.FlushJob(
            batch.states, batch.values, batch.args, batch.state, None, batch.serial, [], None
        )
        return real(first_visit, index, path)

    def switch() -> None:
        monkeypatch.setattr(provenance, "site_of", cached)
        monkeypatch.setattr(history, "site_of", cached)

    return switch


# -- two lines that share a state -----------------------------------------------------------


def first(table, i):
    return table[i + 0].sum()  # the first line


def second(table, i):
    return table[i + 0].sum()  # the second line


def sites_named(names: tuple[str, ...]) -> list[str]:
    """Which of the two lines the errors of both name, after both have taken the same path."""
    table = torch.ones(4, 2)
    torch.synchronize()
    for run in (first, second, first, second):
        assert run(table, GOOD).item() == 2.0
    found = []
    for run in (first, second):
        with pytest.raises(IndexError) as caught:
            run(table, BAD).item()
        text = str(caught.value)
        found.append(next(name for name in names if name in text))
    return found


def test_two_lines_that_share_a_state_are_told_apart(trusting):
    """Disabled: the sites of this visit are thrown away, those of the states are used.

    The error of the second line then names the first.
    """
    lines = line_of(first, "the first line"), line_of(second, "the second line")
    with own_trie():
        assert sites_named(lines) == list(lines)
    trusting()
    with own_trie():
        assert sites_named(lines) == [lines[0], lines[0]]


# -- lines of modules -----------------------------------------------------------------------


class Words(torch.nn.Module):
    """One embedding, looked up on two lines."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(4, 2)

    def forward(self, i, again):
        if again:
            return self.table(i + 0).sum()  # the second lookup
        return self.table(i + 0).sum()  # the first lookup


def test_calls_of_a_module_name_the_callers_line(trusting):
    """The frames inside of the package are passed over; the rest is as for plain lines."""
    lines = tuple(line_of(Words, f"the {which} lookup") for which in ("first", "second"))

    def named() -> list[str]:
        module = Words()
        torch.synchronize()
        for again in (False, True, False, True):
            module(GOOD, again).item()
        found = []
        for again in (False, True):
            with pytest.raises(IndexError) as caught:
                module(BAD, again).item()
            found.append(next(line for line in lines if line in str(caught.value)))
        return found

    with own_trie():
        assert named() == list(lines)
    trusting()
    with own_trie():
        assert named() == [lines[0], lines[0]]


def shape_error() -> str:
    inner = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    net = torch.nn.Sequential(torch.nn.Identity(), inner)
    with pytest.raises(RuntimeError, match="linear: ") as caught:
        net(torch.ones(2, 3))  # the faulty call
    return str(caught.value)


def test_errors_in_layers_name_line_and_module_path():
    """Disabled: the slot by which a module's call notes both on an error that passes it."""
    place = line_of(shape_error, "the faulty call")
    text = shape_error()
    assert place in text
    assert "(1.2)" in text
    with slot_replaced("module_error", lambda error, trace: None):
        text = shape_error()
    assert place not in text
    assert "(1.2)" not in text


def parts(x):
    return list(x)  # the iteration


def test_parts_of_an_iteration_are_made_on_the_users_line():
    with own_trie():
        x = torch.ones(3, 2)
        torch.synchronize()
        rows = parts(x)
        trace = _hot.current_trace()
        sites = {provenance.Site(s.code, s.lasti).line for s in trace.states[1:]}
        assert [f"{__file__}:{line}" for line in sites] == [line_of(parts, "the iteration")]
        assert trace.site_code is None
        assert len(rows) == 3
