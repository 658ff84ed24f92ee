"""The code on the pages about training runs unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from docs.snippets import snippets_of
from nemo_gym import PARENT_DIR
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.global_config import set_global_config_dict
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.tokens.segments import Segment
from nemo_gym.transport.pools import process_transport
from tests.client.gyms import TOKEN, gym_in_a_thread, rows
from tests.tokens.checks import read_as_nemo_rl

PAGES = [PARENT_DIR / "docs" / f"{name}.md" for name in ("training", "train_in_process")]
COUNTER = "resources_servers/example_session_state_mgmt"


def code(name: str) -> str:
    """The block of that name."""
    snippets = [each for page in PAGES for each in snippets_of(page.read_text(encoding="utf-8"))]
    (text,) = [each.text for each in snippets if each.file == name]
    return text


def test_a_trainer_in_five_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[tuple[int, float, list[Segment]]] = []
    with gym_in_a_thread() as running:
        address = {"pid": 1, "token": TOKEN, "head": running.url, "started_at": "now"}
        (tmp_path / ".nemo_gym_global_config.yaml").write_text(yaml.safe_dump({"_ng_run": address}))
        monkeypatch.chdir(tmp_path)
        exec(code("five_lines.py"), {"rows": rows(2), "learn": lambda *rollout: learnt.append(rollout)})
    assert sorted(task for task, _, _ in learnt) == [0] * 8 + [1] * 8
    lines = [line for line in code("five_lines.py").splitlines() if line.strip()]
    assert len(lines) <= 5


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code("embedded.py"), names)
    with EngineProcess(EngineOptions(model="policy")) as engine:
        configs = [
            f"{COUNTER}/configs/example_session_state_mgmt.yaml",
            "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml",
        ]
        helper = names["start"]([engine.base_url], configs, {"host": "127.0.0.1", "port": 0})
        try:
            helper.poll()
            yield names, helper.head_url
        finally:
            helper.shutdown()
            set_global_config_dict(None)


@pytest.fixture(autouse=True)
async def connections() -> AsyncIterator[None]:
    yield
    await process_transport().close()


async def test_a_gym_inside_a_trainer(embedded: Any) -> None:
    names, head_url = embedded
    head = urlsplit(head_url)
    task = {
        "responses_create_params": {"input": "Raise the counter."},
        "agent_ref": {"type": "responses_api_agents", "name": "example_session_state_mgmt_simple_agent"},
        "initial_count": 1,
        "expected_count": 1,
    }
    address = BaseServerConfig(host=str(head.hostname), port=int(head.port or 0))
    found = [each async for each in names["roll_out"]([task] * 3, address)]
    assert [reward for _, reward, _ in found] == [1.0] * 3
    for _, _, turns in found:
        assert read_as_nemo_rl({"response": {"output": turns}})
