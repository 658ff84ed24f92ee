from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.authoring.catalog import read_catalog, read_entry
from nemo_gym.authoring.implementations import find_implementation
from nemo_gym.authoring.scaffold import scaffold


@pytest.fixture
def project(tmp_path: Path) -> Path:
    scaffold("resources_servers/mine", tmp_path)
    agent = tmp_path / "responses_api_agents" / "plain"
    (agent / "configs").mkdir(parents=True)
    (agent / "app.py").write_text('class A:\n    """An agent. It acts."""\n')
    (agent / "configs" / "broken.yaml").write_text("a: [")
    return tmp_path


def test_an_entry_has_the_values_of_its_configuration(project: Path) -> None:
    entry = read_entry(find_implementation("resources_servers/mine", project))
    assert (entry.domain, entry.verification, entry.example_tasks) == ("other", ("state",), 5)
    assert entry.description.startswith("Find the note in one of three drawers")
    assert not entry.is_verified
    assert entry.to_json()["has_tests"] is True


def test_without_a_configuration_the_code_s_own_description_has_to_do(project: Path) -> None:
    entry = read_entry(find_implementation("responses_api_agents/plain", project))
    assert (entry.domain, entry.verification, entry.description) == (None, (), "An agent")


def test_all_our_implementations_have_a_description(project: Path) -> None:
    entries = [entry for entry in read_catalog(project) if entry.implementation.configs]
    assert [entry.implementation.entrypoint for entry in entries if not entry.description] == []
    environments = [entry for entry in entries if entry.implementation.kind == "resources_servers"]
    assert [entry.implementation.name for entry in environments if entry.domain is None] == []
    assert {entry.domain for entry in read_catalog(project, domain="math")} == {"math"}
