"""The global keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.config.keys import GlobalKeys, is_pointless
from tests.config.small_gym import load_in

POINTLESS = [name for name, field in GlobalKeys.model_fields.items() if is_pointless(field)]


@pytest.mark.parametrize("key", POINTLESS)
def test_a_key_without_effect_is_accepted_with_one_warning(tmp_path: Path, key: str) -> None:
    (warning,) = load_in(tmp_path, f"+{key}=3").warnings
    assert warning.startswith(f"command line: +{key}=3: {key}: accepted and without effect: ")


def test_every_global_key_has_a_description() -> None:
    assert [
        name for name, field in GlobalKeys.model_fields.items() if not (field.description or "").endswith(".")
    ] == []
