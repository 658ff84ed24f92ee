"""The older import path of `nemo_gym.sandbox.execution`."""

from nemo_gym.sandbox.execution import ConfinedRunner as Sandbox
from nemo_gym.sandbox.execution import (
    Ending,
    Execution,
    IsolationKind,
    SandboxedProcess,
    Workspace,
)
from nemo_gym.sandbox.isolation import SandboxLimits as Limits

__all__ = [
    "Ending",
    "Execution",
    "IsolationKind",
    "Limits",
    "Sandbox",
    "SandboxedProcess",
    "Workspace",
]
