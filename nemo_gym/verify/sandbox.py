"""The older import path of `nemo_gym.sandbox.execution`."""

from nemo_gym.sandbox.execution import (
    Ending,
    Execution,
    IsolationKind,
    Limits,
    Sandbox,
    SandboxedProcess,
    Workspace,
)

__all__ = [
    "Ending",
    "Execution",
    "IsolationKind",
    "Limits",
    "Sandbox",
    "SandboxedProcess",
    "Workspace",
]
