"""The differences of podman; `docker/test_provider.py` and `test_containers.py` run containers with it."""

from __future__ import annotations

from nemo_gym.sandbox import get_provider_class
from nemo_gym.sandbox.providers.podman import PodmanProvider


def test_podman_has_its_own_arguments_for_gpus() -> None:
    assert get_provider_class("podman") is PodmanProvider
    assert PodmanProvider._gpus(2) == ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"]
