"""Sandboxes of any provider, under the ecosystem's import path.

The room gives environments and agents one interface to sandboxes: a specification, commands, files, endpoints and
terminals. Providers run them: on this machine without a container (`local`, by `nemo_gym.isolation`), in containers
(`docker`, `podman`, `apptainer`), or elsewhere by a provider of an installed package.

    _session, _blocking_session   one sandbox, from start to stop; `api` is the ecosystem's path of both
    pty                           terminal sessions
    config, availability          the configuration block of a provider; providers that this machine lacks
    providers.specification       sandboxes as data
    providers.protocols           the protocol of a provider, and its optional abilities; `providers.base` is the
                                  ecosystem's path of both
    providers.registry            providers by name; `providers.class_checks`: their methods and options
    adapters.docker_compose       services of a Compose file as sandboxes
    access, agent_tools, process_supervisor, spec_values
                                  for agents whose harness runs in a sandbox
"""

from nemo_gym.sandbox._blocking_session import Sandbox as Sandbox
from nemo_gym.sandbox._session import AsyncSandbox as AsyncSandbox
from nemo_gym.sandbox.adapters.docker_compose import AsyncSandboxCompose as AsyncSandboxCompose
from nemo_gym.sandbox.config import resolve_provider_config as resolve_provider_config
from nemo_gym.sandbox.config import resolve_provider_metadata as resolve_provider_metadata
from nemo_gym.sandbox.providers import *  # noqa: F403 - the ecosystem has these names here too
from nemo_gym.sandbox.providers import SandboxCreateError as SandboxCreateError
from nemo_gym.sandbox.providers import SandboxExecResult as SandboxExecResult
from nemo_gym.sandbox.providers import SandboxHandle as SandboxHandle
from nemo_gym.sandbox.providers import SandboxResources as SandboxResources
from nemo_gym.sandbox.providers import SandboxSpec as SandboxSpec
from nemo_gym.sandbox.providers import SandboxStatus as SandboxStatus
from nemo_gym.sandbox.providers import get_provider_class as get_provider_class
from nemo_gym.sandbox.providers import register_provider as register_provider
from nemo_gym.sandbox.providers.local import LocalProvider as LocalProvider
from nemo_gym.sandbox.pty import SandboxPty as SandboxPty
from nemo_gym.sandbox.spec_values import rewrite_image as rewrite_image

__all__ = [
    "AsyncSandbox",
    "Sandbox",
    "SandboxCreateError",
    "SandboxExecResult",
    "SandboxHandle",
    "SandboxResources",
    "SandboxSpec",
    "SandboxStatus",
    "get_provider_class",
    "register_provider",
]
