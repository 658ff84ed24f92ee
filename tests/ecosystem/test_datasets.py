"""The example tasks of public environments are datasets here, by the command that people check theirs with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from tests.ecosystem.conftest import run

EXAMPLES = PARENT_DIR.parent / "shared" / "data" / "environment_examples"


@pytest.mark.skipif(
    not EXAMPLES.is_dir(), reason="needs ../shared/data/environment_examples beside the repository"
)
def test_the_rows_of_all_of_them_are_in_order(tmp_path: Path, environment: dict[str, str]) -> None:
    files = sorted(EXAMPLES.glob("*.jsonl"))
    rows = sum(bool(line.strip()) for file in files for line in file.read_bytes().splitlines())
    assert len(files) > 100
    arguments = [f"+input_jsonl_fpath=[{','.join(map(str, files))}]", "+agent_name=any", "+json=true"]
    done = run(tmp_path, environment, "prepare_data", *arguments, "+output_dirpath=out")
    report = json.loads(done.stdout)
    assert report["fault_count"] == 0, report["faults"]
    assert sum(file["rows"] for file in report["files"]) == rows
    assert len((tmp_path / "out" / "example.jsonl").read_bytes().splitlines()) == rows
