"""The ecosystem's import path for sandboxes. The provider `local` is built in (`nemo_gym.sandbox.providers.local`)."""

from nemo_gym.sandbox._session import AsyncSandbox, Sandbox
from nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxProvider,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
    create_provider,
    get_provider_class,
    list_providers,
    register_provider,
    resolve_provider_config,
    resolve_provider_metadata,
)
from nemo_gym.sandbox.providers.local import LocalProvider

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
