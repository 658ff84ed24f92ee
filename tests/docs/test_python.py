"""The snippets of docs/python.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.testing.serving import LoopbackServers

PAGE = (PARENT_DIR / "docs" / "python.md").read_text(encoding="utf-8")
WITH_URL, WITH_FUNCTION = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_an_engine_behind_a_url_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with LoopbackServers() as servers:
        engine = servers.enter(MockEngine(EngineOptions(policy="echo", model="Qwen3-8B")))
        exec(WITH_URL.replace("http://localhost:8000/v1", engine.base_url), names)
    assert len(names["result"].rollouts) == 24


def test_a_function_that_calls_tools_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(
        WITH_FUNCTION.replace("evaluate(", "result = evaluate("),
        {"evaluate": __import__("nemo_gym").evaluate},
        names,
    )
    assert len(names["result"].rollouts) > 0
