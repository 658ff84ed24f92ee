"""The sandbox provider `podman`: containers without a daemon."""

from nemo_gym.sandbox.providers.podman.provider import PodmanProvider as PodmanProvider
