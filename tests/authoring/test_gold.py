"""The gold of a fresh environment is played through real servers, and a wrong reply in it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.authoring.gold import find_gold, play_gold
from nemo_gym.authoring.implementations import Implementation, find_implementation
from nemo_gym.authoring.scaffold import scaffold


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Implementation:
    scaffold("resources_servers/fresh", tmp_path)
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    return find_implementation("resources_servers/fresh", tmp_path)


def test_the_gold_of_a_new_environment_gets_the_best_rewards(fresh: Implementation) -> None:
    script = find_gold(fresh)
    assert script is not None
    result = play_gold(fresh, script, "gym env test")
    assert result.is_best, result.describe()
    assert result.describe() == "resources_servers/fresh: gold: all 5 example tasks get their best reward"


def test_a_wrong_reply_is_named_with_its_task(fresh: Implementation) -> None:
    script = find_gold(fresh)
    assert script is not None
    script.write_text(script.read_text().replace("feed the cat", "feed the dog"))
    result = play_gold(fresh, script, "gym env test")
    assert result.describe().splitlines() == [
        "resources_servers/fresh: gold: failed",
        "  task 2: reward 0.0, and the best is 1",
    ]


def test_an_exception_of_verify_is_named_beside_the_reward(fresh: Implementation) -> None:
    script, app = find_gold(fresh), fresh.folder / "app.py"
    assert script is not None
    verdict = "        return BaseVerifyResponse("
    bug = "        if 'feed the cat' in final_text(body.response):\n            raise KeyError('bonus')\n"
    app.write_text(app.read_text().replace(verdict, bug + verdict))
    assert play_gold(fresh, script, "gym env test").describe().splitlines() == [
        "resources_servers/fresh: gold: failed",
        "  task 2: reward 0.0, and the best is 1; `verify` broke on the answer: KeyError: 'bonus'",
    ]


def test_a_script_without_a_scene_shows_why_the_run_failed(fresh: Implementation) -> None:
    script = find_gold(fresh)
    assert script is not None
    script.write_text("- {match: nowhere, turns: [{text: hello}]}\n")
    assert "The script has no scene" in play_gold(fresh, script, "gym env test").describe()


def test_a_failed_run_names_the_place_and_no_file_that_is_gone(fresh: Implementation) -> None:
    script, app = find_gold(fresh), fresh.folder / "app.py"
    assert script is not None
    app.write_text(
        app.read_text().replace("(note,) = request", 'raise ValueError("boom")\n        (note,) = request')
    )
    printed = play_gold(fresh, script, "gym env test").describe()
    assert "ValueError: boom\n      raised at resources_servers/fresh/app.py:" in printed
    assert not [word for word in ("gold.jsonl", "gold_failures", "resume") if word in printed]


def test_a_fault_of_the_configuration_begins_with_the_command_that_was_typed(fresh: Implementation) -> None:
    script, (config,) = find_gold(fresh), fresh.configs
    assert script is not None
    config.write_text(config.read_text().replace("name: policy_model", "name: policy_modl"))
    printed = play_gold(fresh, script, "gym env test").describe()
    assert "\ngym env test: 1 problem\n" in printed
    assert "ng_" not in printed


def test_servers_without_gold_are_not_played(fresh: Implementation) -> None:
    (fresh.folder / "data" / "example_gold.yaml").unlink()
    assert find_gold(fresh) is None
    agent = find_implementation("responses_api_agents/simple_agent", fresh.root)
    assert find_gold(agent) is None
