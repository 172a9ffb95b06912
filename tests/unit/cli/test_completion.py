"""`omnigraph completion`: the scripts, and what they are answered."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.cli.completion import SHELLS, VARIABLE
from tests.harness.terminal import PATIENCE_SECONDS
from tests.unit.cli.calls import Call


def answers(call: Call, monkeypatch: pytest.MonkeyPatch, shell: str, words: str) -> list[str]:
    """The lines that a script gets when the cursor stands at the end of the words."""
    last = words.split(" ")[-1]
    monkeypatch.setenv(VARIABLE, f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", last if shell == "fish" else str(len(words.split(" ")) - 1))
    said = call()
    assert (said.code, said.err) == (0, "")
    return said.out.splitlines()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("omnigraph bran", ["plain,branch"]),
        ("omnigraph branch ", ["plain,create", "plain,delete", "plain,list", "plain,merge"]),
        ("omnigraph query --format j", ["plain,jsonl", "plain,json"]),
        ("omnigraph query --snap", ["plain,--snapshot"]),
        ("omnigraph query --store ", ["file,"]),
        ("omnigraph info my", ["file,my"]),
        ("omnigraph completion ", ["plain,bash", "plain,zsh", "plain,fish"]),
    ],
)
def test_the_words_that_may_follow(call: Call, monkeypatch: pytest.MonkeyPatch, words: str, found: list[str]) -> None:
    assert answers(call, monkeypatch, "bash", words) == found


def test_every_shell_is_answered_in_its_own_way(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers(call, monkeypatch, "zsh", "omnigraph ver") == [
        *("plain", "verify", "Check every branch, kept commit and table..."),
        *("plain", "version", "Print the version."),
    ]
    assert answers(call, monkeypatch, "fish", "omnigraph vers") == ["plain,version\tPrint the version."]


@pytest.mark.parametrize("instruction", ["", "bash", "bash_source", "tcsh_complete", "bash_complete"])
def test_what_no_script_asks_is_refused(call: Call, monkeypatch: pytest.MonkeyPatch, instruction: str) -> None:
    monkeypatch.setenv(VARIABLE, instruction)
    assert call("version") == (1, "", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell(call: Call, shell: str) -> None:
    said = call("completion", shell)
    assert (said.code, said.err) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in said.out
    assert "_omnigraph_completion" in said.out
    assert call("completion", "tcsh").code == 2


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which the shells find the real command."""
    command = tmp_path / "omnigraph"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m omnigraph.cli.main "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm"}


def test_bash_completes_by_the_script(environment: dict[str, str]) -> None:
    """The script in a real bash, which calls the real command."""
    program = (
        'eval "$(omnigraph completion bash)"; COMP_WORDS=(omnigraph commit re); COMP_CWORD=2; _omnigraph_completion omnigraph; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "revert\n", "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_by_the_script(environment: dict[str, str]) -> None:
    program = 'eval (omnigraph completion fish | string collect); complete -C "omnigraph commit re"; complete -C "omnigraph query --fo"'
    done = subprocess.run(["fish", "--no-config", "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["revert", "--format"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_by_the_script(environment: dict[str, str]) -> None:
    """In a pseudo-terminal: only there does zsh complete."""
    master, slave = pty.openpty()
    running = subprocess.Popen(["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True)
    os.close(slave)
    try:
        _type(master, "autoload -Uz compinit; compinit -D -u; eval \"$(omnigraph completion zsh)\"; echo rea''dy\n", until="ready\r")
        _type(master, "omnigraph commit rev\t", until="omnigraph commit revert")
        _type(master, "\x15omnigraph query --form\t", until="omnigraph query --format")
    finally:
        running.kill()
        running.wait()
        os.close(master)


def _type(terminal: int, keys: str, *, until: str) -> None:
    """Press keys, and wait until a text is shown. A shell that ends, or is silent for long, fails the test."""
    os.write(terminal, keys.encode())
    shown = b""
    while until.encode() not in shown:
        assert select.select([terminal], [], [], PATIENCE_SECONDS)[0], shown
        shown += os.read(terminal, 1 << 16)
