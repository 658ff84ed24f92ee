from __future__ import annotations

from nemo_gym import mock_engine
from nemo_gym.testing import engine


def test_the_former_name_has_the_same_classes() -> None:
    names = {name for name, value in vars(mock_engine).items() if isinstance(value, type)}
    assert {"MockEngine", "ScriptPolicy"} < names
    assert all(getattr(engine, name) is getattr(mock_engine, name) for name in names)
