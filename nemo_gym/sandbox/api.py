"""The ecosystem's import path for one sandbox of any provider."""

from nemo_gym.sandbox._blocking_session import Sandbox as Sandbox
from nemo_gym.sandbox._session import AsyncSandbox as AsyncSandbox
from nemo_gym.sandbox.pty import SandboxPty as SandboxPty
