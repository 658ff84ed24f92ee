from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.authoring.catalog import read_catalog, read_entry, verification_patterns
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


# --- Verification patterns --------------------------------------------------------------------------------------------


PATTERNS = {
    "answer": "async def verify(self, body): ...",
    "state": "class A:\n    async def verify(self, request, body): ...",
    "judge": "from nemo_gym.judge import call_judge\nasync def verify(self, body): await call_judge()",
    "execution": "import subprocess",
    "steps": "class A(GymnasiumServer): ...",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_recognized_by_the_names_in_the_code(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "app.py").write_text(PATTERNS[pattern])
    assert verification_patterns(tmp_path) == [pattern]


def test_patterns_have_a_fixed_order_and_a_multi_reward_implies_no_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "app.py").write_text("class R(BaseMultiRewardVerifyResponse): ...")
    assert verification_patterns(tmp_path) == ["answer", "multi-reward"]
    (tmp_path / "judging.py").write_text("server: ModelServerRef")
    (tmp_path / "steps.py").write_text('app.post("/step")(f)')
    assert verification_patterns(tmp_path) == ["judge", "steps", "multi-reward"]


def test_tests_and_invalid_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_app.py").write_text("import subprocess")
    (tmp_path / "prepare.py").write_text("import subprocess")
    (tmp_path / "app.py").write_text("def broken(")
    assert verification_patterns(tmp_path) == ["answer"]


def test_patterns_of_our_environments() -> None:
    told = {
        name: verification_patterns(PARENT_DIR / "resources_servers" / name)
        for name in ("mcqa", "math_with_judge", "example_session_state_mgmt", "blackjack")
    }
    assert told == {
        "mcqa": ["answer"],
        "math_with_judge": ["answer", "judge"],
        "example_session_state_mgmt": ["state"],
        "blackjack": ["steps"],
    }
