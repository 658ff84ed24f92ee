"""Model roles are found in the source of a task."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.sources.foreign.host.model_roles import find_model_roles

SOURCE = """
get_model(role="user")
model.get_model("openai/gpt-5", role="critic")
model_graded_qa(model_role="judge")
model_graded_fact(model_role=None)
get_model(role=name)
Message(role="assistant")
"""


def test_roles_are_those_of_models_alone(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(SOURCE)
    (tmp_path / "old.py").write_text("print 'of Python 2'")
    assert find_model_roles(sorted(tmp_path.iterdir())) == ["critic", "judge", "user"]
    assert find_model_roles([]) == []
