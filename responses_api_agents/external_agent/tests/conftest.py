"""A folder of records for each test."""

from __future__ import annotations

import pytest

from responses_api_agents.external_agent.tests.agents import AgentGym


@pytest.fixture(autouse=True)
def records(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentGym, "records", tmp_path_factory.mktemp("records"), raising=False)
