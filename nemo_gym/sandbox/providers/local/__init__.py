"""The sandbox provider `local`: confined commands on this machine, without a container."""

from nemo_gym.sandbox.providers.local.provider import LocalProvider as LocalProvider
