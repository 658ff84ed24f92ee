from __future__ import annotations

from nemo_gym import mock_engine
from nemo_gym.testing import engine


def test_the_former_name_has_the_same_classes() -> None:
    assert engine.__all__ == mock_engine.__all__
    assert all(getattr(engine, name) is getattr(mock_engine, name) for name in mock_engine.__all__)
