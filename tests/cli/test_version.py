"""The versions of the gym, Python and the platform."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import nemo_gym


def ng_version(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from nemo_gym.cli.version import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_text_and_json_have_the_same_facts(tmp_path: Path) -> None:
    text, as_json = ng_version(folder=tmp_path), ng_version("--json", folder=tmp_path)
    assert (text.returncode, as_json.returncode, text.stderr) == (0, 0, "")
    facts = json.loads(as_json.stdout)
    assert facts["nemo_gym"] == nemo_gym.__version__
    assert facts["python"] == platform.python_version()
    assert text.stdout.splitlines() == [f"{name}: {value}" for name, value in facts.items()]


def test_an_unknown_key_exits_with_2(tmp_path: Path) -> None:
    done = ng_version("+jsn=true", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean 'json'?" in done.stderr
