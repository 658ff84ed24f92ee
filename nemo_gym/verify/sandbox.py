"""The older import path of `nemo_gym.isolation.execution`."""

from nemo_gym.isolation.execution import ConfinedRunner, SandboxLimits
from nemo_gym.isolation.execution import Ending as Ending
from nemo_gym.isolation.execution import Execution as Execution
from nemo_gym.isolation.execution import IsolationKind as IsolationKind
from nemo_gym.isolation.execution import SandboxedProcess as SandboxedProcess
from nemo_gym.isolation.execution import Workspace as Workspace

Limits = SandboxLimits
Sandbox = ConfinedRunner
