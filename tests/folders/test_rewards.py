"""The rewards of trials are those of Harbor's own runner: of the solution, of nothing, and of a wrong solution."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from nemo_gym.failures import GymError
from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider
from tests.folders.trials import write_trials
from tests.sandbox.rootless_images import HOST_IMAGE, host_provider, needs_rootless
from tests.sources.task_folders.task_maker import load_trial

pytestmark = [pytest.mark.folders, needs_rootless]
Rewards = dict[str, float] | None


def run_harbor(
    harbor: Path, folders: list[Path], agent: str, provider: RootlessProvider, work: Path
) -> dict[str, Rewards]:
    """Run all folders by Harbor's runner, and return their rewards; None for a trial without a verdict."""
    job = {
        "jobs_dir": str(work),
        "job_name": "job",
        "n_concurrent_trials": 3,
        "environment": {"import_path": "bubblewrap_environment:BubblewrapEnvironment"},
        "agents": [{"name": agent}],
        "tasks": [{"path": str(folder)} for folder in folders],
    }
    (work / "job.yaml").write_text(yaml.safe_dump(job))
    owner = {"NEMO_GYM_UID": str(provider.store.owner)} if provider.store.owner is not None else {}
    variables = {
        "PYTHONPATH": str(Path(__file__).parent),
        "NEMO_GYM_LOWER": str(provider.store.layer(HOST_IMAGE)),
    }
    subprocess.run(
        [harbor / "harbor", "run", "-c", work / "job.yaml", "-y"],
        env={**os.environ, **variables, **owner, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        capture_output=True,
        check=True,
    )
    results = [json.loads(path.read_bytes()) for path in (work / "job").glob("*/result.json")]
    return {
        Path(result["task_id"]["path"]).name: (result["verifier_result"] or {}).get("rewards")
        for result in results
    }


async def play(folder: Path, provider: RootlessProvider, *, plays_solution: bool) -> Rewards:
    trial = load_trial(folder, provider)
    try:
        await trial.start()
        while True:
            if plays_solution:
                await trial.play_solution()
            await trial.finish_step()
            if not await trial.begin_next_step():
                return trial.combine()
    except GymError:
        return None
    finally:
        await trial.close()


@pytest.mark.parametrize(("agent", "wrong"), [("oracle", False), ("nop", False), ("oracle", True)])
async def test_rewards_are_equal(agent: str, wrong: bool, harbor: Path, tmp_path: Path) -> None:
    folders = write_trials(tmp_path / "tasks", wrong=wrong)
    assert len(folders) >= 50
    work = tmp_path / "work"
    work.mkdir()
    with host_provider() as provider:
        theirs = run_harbor(harbor, folders, agent, provider, work)
        ours = {
            folder.name: await play(folder, provider, plays_solution=agent == "oracle") for folder in folders
        }
    assert ours == theirs
