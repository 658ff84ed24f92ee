"""Every environment of the repository, whole: its example tasks are attempted over an engine, and a policy that does
what is right gets the best reward there is.

Each run of `ng_e2e_collect_rollouts` holds them all. In one the mock engine plays its plain policy, in one it repeats
what it is asked, in one it follows the gold that each environment has (`data/example_gold.yaml`,
docs/writing_an_environment.md). Judges are a model of their own, which follows the gold in all of them. The gold is
followed with a process for each server, as users run them; the other two runs need one process.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym.failures import Outcome
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.conversation import read_text
from nemo_gym.mock_engine.process import EngineProcess
from tests.e2e.gym_run import GymRun, Row, check_books
from tests.our_environments import OUR_ENVIRONMENTS

pytestmark = pytest.mark.long_file

WITHIN_S = 240.0
"""A run takes some seconds; what takes as long as this hangs."""
VLLM_MODEL = "responses_api_models/vllm_model/configs/vllm_model.yaml"
POLICY, JUDGE = "policy_model", "judge_model"


def test_all_example_tasks_are_completed_and_gold_is_the_best(tmp_path: Path) -> None:
    script = tmp_path / "gold.yaml"
    script.write_text(json.dumps([scene for environment in OUR_ENVIRONMENTS for scene in environment.gold()]))
    gold = EngineOptions(policy="script", script=script)
    policies = {"plain": EngineOptions(most_calls=3), "echo": EngineOptions(policy="echo"), "gold": gold}
    runs: dict[str, dict[str, list[Row]]] = {}
    with EngineProcess(gold) as judge:
        for policy, options in policies.items():
            with EngineProcess(options) as engine:
                placement = "process" if policy == "gold" else "inline"
                runs[policy] = collect(tmp_path / policy, engine, judge, placement)
    table, wrong = [f"{'environment':30}{'rows':>5}{'completed':>11}" + "".join(f"{p:>8}" for p in runs)], []
    for environment in OUR_ENVIRONMENTS:
        best = environment.best_rewards() * len(environment.agents())
        outcomes = [row["_ng_outcome"] for run in runs.values() for row in run[environment.name]]
        completed = outcomes.count(Outcome.COMPLETED)
        rewards = {policy: [row["reward"] for row in run[environment.name]] for policy, run in runs.items()}
        mean = {policy: sum(earned) / len(best) for policy, earned in rewards.items()}
        table.append(
            f"{environment.name:30}{len(best):5}{completed:7} / {len(outcomes)}"
            + "".join(f"{value:8.2f}" for value in mean.values())
        )
        if rewards["gold"] != best or mean["echo"] >= mean["gold"] or completed != len(runs) * len(best):
            wrong.append(f"{table[-1]}; gold {rewards['gold']}, best {best}, {Counter(outcomes)}")
    print("\n" + "\n".join(table))  # noqa: T201
    assert wrong == []


def collect(
    folder: Path, policy: EngineProcess, judge: EngineProcess, placement: str
) -> dict[str, list[Row]]:
    """The scored rows of one attempt at every example task, by environment and in the order of the tasks."""
    folder.mkdir()
    (folder / "judges.yaml").write_text(yaml.safe_dump(judged_by(judge)))
    files = [str(path) for environment in OUR_ENVIRONMENTS for path in environment.config_files]
    engine = [f"+policy_base_url={policy.base_url}", "+policy_api_key=none", "+policy_model_name=mock"]
    engine.append(f"+placement={placement}")
    with GymRun(folder, f"+config_paths=[{','.join([*files, VLLM_MODEL, 'judges.yaml'])}]", *engine) as run:
        exit_code, _ = run.finish(WITHIN_S)
    assert exit_code == 0, run.errors
    tasks = sum(len(environment.examples()) * len(environment.agents()) for environment in OUR_ENVIRONMENTS)
    assert check_books(run, tasks, 1) == set()
    rows = sorted(run.rows(), key=lambda row: (row["agent_ref"]["name"], row["_ng_task_index"]))
    return {
        environment.name: [row for row in rows if row["agent_ref"]["name"] in environment.agents()]
        for environment in OUR_ENVIRONMENTS
    }


def judged_by(engine: EngineProcess) -> dict[str, Any]:
    """A configuration with a second model, which takes the policy's place as a judge in every environment."""
    judge = {"entrypoint": "app.py", "base_url": engine.base_url, "api_key": "none", "model": "mock"}
    config: dict[str, Any] = {JUDGE: {"responses_api_models": {"vllm_model": judge}}}
    for environment in OUR_ENVIRONMENTS:
        for name, server in environment.servers().items():
            for folder, options in server.get("resources_servers", {}).items():
                judges = {key: {"name": JUDGE} for key, value in options.items() if is_policy(value)}
                if judges:
                    config[name] = {"resources_servers": {folder: judges}}
    return config


def is_policy(option: object) -> bool:
    return isinstance(option, dict) and option.get("name") == POLICY


def test_a_scene_is_about_tasks_of_its_own_environment() -> None:
    conversations = [
        (environment.name, "\n".join(spoken(task)))
        for environment in OUR_ENVIRONMENTS
        for task in environment.examples()
    ]
    for environment in OUR_ENVIRONMENTS:
        for scene in environment.gold():
            assert len(scene.get("match", "")) > 5, f"{environment.name}: a scene for every conversation"
            others = Counter(name for name, text in conversations if scene["match"] in text)
            del others[environment.name]
            assert not others, f"{environment.name}: {scene['match']!r} is also in tasks of {set(others)}"


def spoken(task: Row) -> Iterator[str]:
    """The texts of a task's conversation."""
    given = task["responses_create_params"]["input"]
    for item in [{"content": given}] if isinstance(given, str) else given:
        yield read_text(item.get("content"))
