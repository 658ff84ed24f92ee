"""The sections of a provider's options."""

from __future__ import annotations

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.providers.options import ReadinessProbe, section


def test_a_section_is_given_as_a_mapping_or_an_object_or_not_at_all() -> None:
    assert section(ReadinessProbe, {"timeout_s": 5}, "probe") == ReadinessProbe(timeout_s=5)
    assert section(ReadinessProbe, ReadinessProbe(command=None), "probe").command is None
    assert section(ReadinessProbe, None, "probe") == ReadinessProbe()


def test_every_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"`probe` of a sandbox provider have no deadline, timeout\."):
        section(ReadinessProbe, {"timeout": 1, "deadline": 2}, "probe")
