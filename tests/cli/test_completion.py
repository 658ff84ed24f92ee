"""`gym completion`, by the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def run(folder: Path, shell: str, program: str) -> list[str]:
    """Run a program of a shell in an empty folder and return its lines."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *options, "-c", program],
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


LINES = [
    ("gym ev", ["eval"]),
    ("gym eval run mcq", ["mcqa"]),
    ("gym eval run --model-type vll", ["vllm_model"]),
    ("gym eval run mcqa +lim", ["+limit="]),
    ("gym eval run mcqa --concurr", ["--concurrency"]),
    ("ng list mod", ["models"]),
]


@pytest.mark.parametrize(("line", "completions"), LINES)
def test_bash_completes_verbs_names_options_and_keys(
    tmp_path: Path, line: str, completions: list[str]
) -> None:
    words = line.split()
    program = (
        f'eval "$(gym completion bash)"; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; '
        f'_{words[0]}_completion {words[0]}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    assert run(tmp_path, "bash", program) == completions


@pytest.mark.parametrize(("line", "completions"), LINES)
def test_fish_completes_the_same(tmp_path: Path, line: str, completions: list[str]) -> None:
    found = run(tmp_path, "fish", f"gym completion fish | source; complete --do-complete '{line}'")
    assert [each.split("\t")[0] for each in found] == completions


def test_zsh_registers_a_completion_for_both_names(tmp_path: Path) -> None:
    program = (
        'autoload -U compinit; compinit -u; eval "$(gym completion zsh)"; print -l $_comps[gym] $_comps[ng]'
    )
    assert run(tmp_path, "zsh", program) == ["_gym_completion", "_ng_completion"]
    answer = 'COMP_WORDS="gym eval run mcq" COMP_CWORD=3 _GYM_COMPLETE=zsh_complete gym'
    assert run(tmp_path, "zsh", answer) == ["plain", "mcqa", "_"]


def test_a_shell_that_is_not_supported_is_wrong_usage(tmp_path: Path) -> None:
    done = subprocess.run(
        [BIN / "gym", "completion", "tcsh"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "shell must be 'bash', 'zsh' or 'fish'" in done.stderr
