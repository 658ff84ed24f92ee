"""The older import path of `nemo_gym.isolation.execution`."""

from nemo_gym.isolation.confinement import SandboxLimits as Limits
from nemo_gym.isolation.execution import ConfinedRunner as Sandbox
from nemo_gym.isolation.execution import (
    Ending,
    Execution,
    IsolationKind,
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
