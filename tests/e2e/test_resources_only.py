"""Environments without agent and model: a bare `POST /verify` scores an answer."""

from __future__ import annotations

import pytest
import yaml

from nemo_gym import PARENT_DIR
from nemo_gym.config.loading import load
from nemo_gym.launch.inline import inline
from tests.our_environments import RESOURCES_ONLY, OurEnvironment
from tests.resources.computing import ComputingEnvironment

FOLDERS = sorted(path.parent for path in (PARENT_DIR / "resources_servers").glob("*/app.py"))
WITH_STATE = {"blackjack", "gymnasium", "text_gymnasium", "example_session_state_mgmt", "workplace_assistant"}
"""Environments that score a session and not an answer."""
NEEDS_A_JUDGE = {"equivalence_llm_judge", "rubric_judge"}
HAS_NO_ROWS = {"task_folders", "foreign"}
"""Environments whose rows are made of the user's folders."""
LEFT_OUT = NEEDS_A_JUDGE | HAS_NO_ROWS
FILES = [folder / "configs" / RESOURCES_ONLY for folder in FOLDERS if folder.name not in LEFT_OUT]
ANSWER = {
    "id": "resp_1",
    "object": "response",
    "created_at": 0,
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I do not know.", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


def test_every_environment_that_needs_no_model_has_one() -> None:
    assert [path.parent.parent.name for path in FILES if not path.exists()] == []
    for path in FILES:
        (block,) = yaml.safe_load(path.read_text()).values()
        assert list(block) == ["resources_servers"]
        assert "responses_api_models" not in str(block)


@pytest.mark.parametrize("opened", [True, False], ids=["open", "default"])
async def test_an_answer_is_scored_without_session_and_token_only_if_verify_is_open(opened: bool) -> None:
    names = {path: next(iter(yaml.safe_load(path.read_text()))) for path in FILES}
    folders = {path: path.parent.parent.name for path in FILES}
    options = [
        f"++{names[path]}.resources_servers.{folders[path]}.open_verify=true" for path in FILES if opened
    ]
    listed = ",".join(map(str, FILES))
    config = load([f"+config_paths=[{listed}]", *options], env_path=None)
    async with inline(config) as gym:
        gym.token = "unknown"
        for path, name in names.items():
            (row, *_) = OurEnvironment(path.parent.parent).examples()
            reply = await gym.client().post(name, "/verify", json={**row, "response": ANSWER})
            answer = await reply.json()
            if opened and folders[path] in WITH_STATE:
                assert reply.status == 409, (name, answer)
            elif opened:
                assert reply.status == 200, (name, answer)
                assert isinstance(answer["reward"], int | float), name
            else:
                assert (reply.status, answer["error"]["code"]) == (401, "token_required")


def test_verify_is_open_on_loopback_only() -> None:
    with pytest.raises(ValueError, match="open_verify needs a loopback address"):
        ComputingEnvironment.standalone(host="0.0.0.0", open_verify=True, factor=1.0)
    ComputingEnvironment.standalone(host="127.0.0.1", open_verify=True, factor=1.0)
