"""The ecosystem's import path for the access to a running sandbox."""

from nemo_gym.protocol.sandbox_access import DirectSandboxConnection as DirectSandboxConnection
from nemo_gym.protocol.sandbox_access import SandboxAccess as SandboxAccess
