"""Settings: the environment, overriding, threads."""

import os
import subprocess
import sys
import threading

import pytest

from wend._engine.base import config
from wend._engine.base.config import Settings, flag, override, settings
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, NotAvailable


@pytest.mark.parametrize("text", ["1", "true", "YES", " on "])
def test_flag_yes(text):
    assert flag("WEND_X", {"WEND_X": text}) is True


@pytest.mark.parametrize("text", ["", "0", "False", "no", "off"])
def test_flag_no(text):
    assert flag("WEND_X", {"WEND_X": text}) is False
    assert flag("WEND_X", {}) is False


def test_flag_of_nonsense():
    with pytest.raises(ArgumentError, match="WEND_X: 'perhaps' is neither yes nor no"):
        flag("WEND_X", {"WEND_X": "perhaps"})


@pytest.mark.smoke
def test_environment_sets_the_settings():
    words = {"WEND_CPU", "WEND_TRACEBACK"}  # which are no flags
    assert words <= set(config.ENVIRONMENT)
    for name in set(config.ENVIRONMENT) - words:
        made = Settings({name: "1"})
        fields = ("eager", "verify", "pure", "strict", "nan_guard", "deterministic")
        assert [getattr(made, f) for f in fields] == [f"WEND_{f.upper()}" == name for f in fields]


def test_tracebacks_are_short_unless_the_environment_asks():
    assert (
        not Settings({}).full_tracebacks
        and not Settings({"WEND_TRACEBACK": "short"}).full_tracebacks
    )
    assert Settings({"WEND_TRACEBACK": "Full"}).full_tracebacks
    with pytest.raises(ArgumentError, match="WEND_TRACEBACK: 'long' is neither short nor full"):
        Settings({"WEND_TRACEBACK": "long"})


def test_equal_calls_have_equal_bits_where_the_environment_asks():
    """A program that compares two calls bit for bit needs no change: no call runs other code."""
    program = (
        "import wend as torch\n"
        "assert torch.are_deterministic_algorithms_enabled()\n"
        "x, w = torch.rand(64, 37), torch.rand(37, 33)\n"
        "def step():\n"
        "    return torch.softmax(torch.tanh(x @ w), 1).mean(0).sin().sum().item()\n"
        "assert len({step() for _ in range(30)}) == 1\n"
        "torch.use_deterministic_algorithms(False)\n"
        "assert not torch.are_deterministic_algorithms_enabled()\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"WEND_DETERMINISTIC": "1"}, check=True, timeout=120,
    )  # fmt: skip


def test_levels_of_processors():
    assert config.processor_level({}) == "" == config.processor_level({"WEND_CPU": " "})
    assert config.processor_level({"WEND_CPU": "AVX2"}) == "avx2"
    with pytest.raises(ArgumentError, match="WEND_CPU: 'avx3' is none of sse4"):
        Settings({"WEND_CPU": "avx3"})


def test_override_restores_and_tells():
    calls = []
    settings.on_change(lambda: calls.append(settings.deterministic))
    before = settings.deterministic
    with pytest.raises(ZeroDivisionError), override(deterministic=not before) as inside:
        assert inside is settings and settings.deterministic is not before
        raise ZeroDivisionError
    assert settings.deterministic is before
    assert calls[-2:] == [not before, before]


def test_bad_settings_change_nothing():
    before = settings.eager
    with pytest.raises(NotAvailable, match="no setting named 'spam'"):
        settings.set(eager=not before, spam=True)
    with pytest.raises(NotAvailable):
        settings.set(_lock=True)
    with pytest.raises(ArgumentTypeError, match="eager takes True or False, not a int"):
        settings.set(eager=1)
    assert settings.eager is before


def test_threads_do_not_lose_settings():
    """A change made of two settings is never seen half done by another change."""
    made = Settings({})
    torn = []

    def flip(value):
        for _ in range(300):
            before = made.set(eager=value, verify=value)
            if before["eager"] is not before["verify"]:
                torn.append(before)

    threads = [threading.Thread(target=flip, args=(value,)) for value in (True, False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
