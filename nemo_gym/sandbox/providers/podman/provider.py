"""The sandbox provider `podman`: containers without a daemon, by the command line that it shares with docker."""

from __future__ import annotations

from nemo_gym.sandbox.providers.docker.provider import DockerProvider


class PodmanProvider(DockerProvider):
    """Creates sandboxes as containers of podman. Its options are those of `docker`."""

    name = "podman"
    _REMOVE = ("rm", "--force", "--time", "0")  # docker kills at once, podman waits for ten seconds

    @staticmethod
    def _gpus(count: int) -> list[str]:
        return [option for index in range(count) for option in ("--device", f"nvidia.com/gpu={index}")]
