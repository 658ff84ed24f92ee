"""The sandbox provider `docker`: containers of a local Docker daemon."""

from nemo_gym.sandbox.providers.docker.options import DockerCreateConfig as DockerCreateConfig
from nemo_gym.sandbox.providers.docker.options import DockerExecConfig as DockerExecConfig
from nemo_gym.sandbox.providers.docker.options import DockerProbeConfig as DockerProbeConfig
from nemo_gym.sandbox.providers.docker.provider import DockerProvider as DockerProvider

__all__ = ["DockerProvider"]
