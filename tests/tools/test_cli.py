"""The command line: every command, and every wrong call."""

import re

import pytest

from wend._tools import cli


@pytest.mark.smoke
def test_version_and_help(capsys):
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"wend \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)
    for arguments in (["--help"], ["-h"], ["run", "--help"]):
        assert cli.main(arguments) == 0
        assert capsys.readouterr().out == cli.USAGE


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ([], "a command is needed"),
        (["fly"], "there is no command 'fly'"),
        (["run"], "run needs a script"),
        (["run", "-m"], "run needs a module"),
        (["run", "--fast", "x.py"], "run has no option '--fast'"),
        (["env", "x"], "env takes no arguments, and was given 'x'"),
    ],
)
def test_wrong_calls(capsys, arguments, fault):
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"wend: {fault}") and cli.USAGE in captured.err


def test_env_names_what_a_report_needs(capsys, monkeypatch):
    monkeypatch.setenv("WEND_VERIFY", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("SECRET_TOKEN", "do not print this")
    assert cli.main(["env"]) == 0
    text = capsys.readouterr().out
    rows = dict(line.split(None, 1) for line in text.splitlines())
    for name in ("wend", "core", "python", "platform", "processor", "cores", "memory", "numpy"):
        assert rows[name], name
    assert rows["core"].split()[0].rstrip(":") in ("compiled", "uncompiled", "broken")
    assert rows["WEND_VERIFY"] == "0" and rows["OMP_NUM_THREADS"] == "1"
    assert "do not print this" not in text


def test_env_runs_where_dependencies_are_missing(monkeypatch, capsys):
    from importlib import metadata

    from wend._tools import environment

    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(environment.metadata, "version", nothing)
    assert cli.main(["env"]) == 0
    assert "not installed" in capsys.readouterr().out


def test_python_dash_m(python):
    assert python("-m", "wend", "--version").stdout.startswith("wend ")
    assert python("-m", "wend", check=False).returncode == 2


def test_a_closed_pipe_is_no_error(python):
    code = (
        "import os, sys\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "from wend._tools import cli\n"
        "sys.exit(cli.main(['env']))"
    )
    done = python("-c", code, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_uncompiled_core_can_be_asked_for(python):
    done = python("-m", "wend", "env", env={"WEND_PURE": "1"})
    assert re.search(r"^core +uncompiled \(WEND_PURE is set\)$", done.stdout, re.MULTILINE)
