"""The sections of a provider's options."""

from __future__ import annotations

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.providers.apptainer import ApptainerExecConfig
from nemo_gym.sandbox.providers.docker import DockerExecConfig
from nemo_gym.sandbox.providers.options import ReadinessProbe, section


def test_a_section_is_given_as_a_mapping_or_an_object_or_not_at_all() -> None:
    assert section(ReadinessProbe, {"timeout_s": 5}, "probe") == ReadinessProbe(timeout_s=5)
    assert section(ReadinessProbe, ReadinessProbe(command=None), "probe").command is None
    assert section(ReadinessProbe, None, "probe") == ReadinessProbe()


def test_every_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"`probe` of a sandbox provider have no deadline, timeout\."):
        section(ReadinessProbe, {"timeout": 1, "deadline": 2}, "probe")


def test_the_public_options_keep_their_order() -> None:
    assert ApptainerExecConfig(60, 5, False, ["/data"], ["--nv"], 8) == ApptainerExecConfig(
        default_timeout_s=60,
        timeout_grace_s=5,
        fakeroot_for_root=False,
        default_binds=["/data"],
        extra_exec_args=["--nv"],
        concurrency=8,
    )
    assert DockerExecConfig(60, ["-t"], 8, "sh") == DockerExecConfig(
        default_timeout_s=60, extra_exec_args=["-t"], concurrency=8, exec_shell="sh"
    )
