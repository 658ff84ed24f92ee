from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nemo_gym import PARENT_DIR, WORKING_DIR
from nemo_gym.serving.durability import CAPTURE_DIR_KEY, capture_folder


def test_the_folder_of_records_is_the_configured_one(tmp_path: Path) -> None:
    assert capture_folder({CAPTURE_DIR_KEY: str(tmp_path)}) == tmp_path
    assert capture_folder({}).is_relative_to(WORKING_DIR)


def test_nothing_is_imported_for_runs_that_are_not_durable() -> None:
    program = (
        "import sys, nemo_gym.rollouts.run.collect, responses_api_models.vllm_model.app, "
        "responses_api_agents.simple_agent.app\n"
        "print([name for name in sys.modules if 'engines.attempts' in name or 'durable' in name or 'forks' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PARENT_DIR, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
