from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.authoring._verification import verification_patterns

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
