"""Sandbox providers: the interface, the registry, and the providers of this machine."""

from nemo_gym.sandbox.providers.base import *  # noqa: F403 - the ecosystem has these names here too
from nemo_gym.sandbox.providers.registry import create_provider as create_provider
from nemo_gym.sandbox.providers.registry import get_provider_class as get_provider_class
from nemo_gym.sandbox.providers.registry import list_providers as list_providers
from nemo_gym.sandbox.providers.registry import register_provider as register_provider
