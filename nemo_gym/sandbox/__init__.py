"""Sandboxes for untrusted code, under the ecosystem's import path.

The room confines programs on this machine and gives environments one interface to sandboxes of any provider. It
promises that a program never runs as root with write access, that its time, memory, output and processes are
bounded, and that everything it started ends with it. It builds on `nemo_gym.processes`.

    providers.base       the specification, the handle and the protocol of a provider
    providers.registry   providers by name
    providers.local      the built-in provider: confined commands on this machine
    config               the configuration block of a provider
    execution            runs confined programs in the strictest isolation that works
    isolation            the command line that confines a program
    process              one confined program: streams, lifetime, end
"""

from nemo_gym.sandbox._session import AsyncSandbox, Sandbox
from nemo_gym.sandbox.config import resolve_provider_config, resolve_provider_metadata
from nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxProvider,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)
from nemo_gym.sandbox.providers.local import LocalProvider
from nemo_gym.sandbox.providers.registry import (
    create_provider,
    get_provider_class,
    list_providers,
    register_provider,
)

register_provider(LocalProvider.name, LocalProvider)

__all__ = [
    "AsyncSandbox",
    "LocalProvider",
    "Sandbox",
    "SandboxCreateError",
    "SandboxExecResult",
    "SandboxHandle",
    "SandboxProvider",
    "SandboxResources",
    "SandboxSpec",
    "SandboxStatus",
    "create_provider",
    "get_provider_class",
    "list_providers",
    "register_provider",
    "resolve_provider_config",
    "resolve_provider_metadata",
]
