"""Scripts that prepare datasets: which there are, which packages they need, and how they run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.problems import Problems
from nemo_gym.datasets.benchmarks import (
    PreparedDataset,
    find_prepared_datasets,
    report_missing_packages,
    run_script,
)
from nemo_gym.failures import ConfigError, GymError

CONFIG = """\
small:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      judge: ${judge_key}
      datasets:
      - name: small
        type: benchmark
        jsonl_fpath: benchmarks/small/data/rows.jsonl
        prepare_script: benchmarks/small/prepare.py
      - {name: other, type: example, jsonl_fpath: other.jsonl}
"""
SCRIPT = """\
import json
from pathlib import Path
from typing import Any

from benchmarks.small.rows import ROWS

def prepare() -> Path:
    output = Path(__file__).parent / "data" / "rows.jsonl"
    output.parent.mkdir(exist_ok=True)
    output.write_text("".join(json.dumps(row) + "\\n" for row in ROWS))
    return output

if __name__ == "__main__":
    raise SystemExit("it was run as a program")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "benchmarks" / "small"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "prepare.py").write_text(SCRIPT)
    (folder / "rows.py").write_text('ROWS = [{"question": "1 + 1"}]\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dataset(here: Path, **changes: Any) -> PreparedDataset:
    script = here / "benchmarks" / "small" / "prepare.py"
    found = PreparedDataset("small", script, here, "benchmarks/small/data/rows.jsonl", ())
    return found._replace(**changes)


def prepare(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from nemo_gym.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "eval", "prepare", *arguments],
        cwd=here,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_datasets_of_the_split_with_a_script_are_found(here: Path) -> None:
    block = {"name": "small", "type": "benchmark", "prepare_script": "benchmarks/small/prepare.py"}
    block["jsonl_fpath"] = "benchmarks/small/data/rows.jsonl"
    config = {
        "agent": {"responses_api_agents": {"a": {"datasets": [block, {"type": "example"}]}}},
        "limit": 3,
    }
    problems = Problems()
    assert find_prepared_datasets(config, "benchmark", here, problems) == [dataset(here)]
    block["prepare_script"] = "absent.py"
    assert find_prepared_datasets(config, "benchmark", here, problems) == []
    assert "There is no file 'absent.py'" in str(problems.found[0])


def test_a_missing_package_is_named_before_the_script_runs(here: Path) -> None:
    script = here / "benchmarks" / "small" / "prepare.py"
    script.write_text(f"{SCRIPT}\ndef late():\n    import no_such_package.part\n    from . import rows\n")
    problems = Problems()
    report_missing_packages(dataset(here, dependencies=("no-such-name>=2", "-e", "pytest")), problems)
    assert "pip install no_such_package no-such-name>=2" in str(problems.found[0])


def test_a_script_without_the_function_is_run_as_a_program(here: Path) -> None:
    script = here / "benchmarks" / "small" / "prepare.py"
    script.write_text('if __name__ == "__main__":\n    open("written.jsonl", "w").close()\n')
    assert run_script(dataset(here, output="written.jsonl"), here) == here / "written.jsonl"


def test_a_script_that_fails_or_writes_nothing_is_an_error(here: Path) -> None:
    script = here / "benchmarks" / "small" / "prepare.py"
    script.write_text("raise SystemExit(7)\n")
    with pytest.raises(GymError, match="ended with exit code 7"):
        run_script(dataset(here), here)
    script.write_text("def prepare():\n    pass\n")
    with pytest.raises(ConfigError, match="did not write"):
        run_script(dataset(here), here)


def test_a_benchmark_is_prepared_by_its_name_once(here: Path) -> None:
    done = prepare(here, "--benchmark", "small")
    assert done.returncode == 0, done.stderr
    assert (here / "benchmarks" / "small" / "data" / "rows.jsonl").read_text() == '{"question": "1 + 1"}\n'
    again = prepare(here, "small")
    assert "+overwrite=true prepares it anew" in again.stdout


def test_a_configuration_without_scripts_is_an_error(here: Path) -> None:
    done = prepare(here, "--split", "train", "small")
    assert done.returncode == 2
    assert "no dataset of type train with a `prepare_script`" in done.stderr
