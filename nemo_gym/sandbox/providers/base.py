"""The ecosystem's import path for the interface between sandboxes and providers."""

from nemo_gym.sandbox.providers.protocols import ConnectableProvider as ConnectableProvider
from nemo_gym.sandbox.providers.protocols import SandboxProvider as SandboxProvider
from nemo_gym.sandbox.providers.protocols import SandboxPtySession as SandboxPtySession
from nemo_gym.sandbox.providers.protocols import (
    SupportsSandboxBackgroundServices as SupportsSandboxBackgroundServices,
)
from nemo_gym.sandbox.providers.protocols import SupportsSandboxEndpoint as SupportsSandboxEndpoint
from nemo_gym.sandbox.providers.protocols import SupportsSandboxNetwork as SupportsSandboxNetwork
from nemo_gym.sandbox.providers.protocols import SupportsSandboxPauseResume as SupportsSandboxPauseResume
from nemo_gym.sandbox.providers.protocols import (
    SupportsSandboxPortForwarding as SupportsSandboxPortForwarding,
)
from nemo_gym.sandbox.providers.protocols import SupportsSandboxPty as SupportsSandboxPty
from nemo_gym.sandbox.providers.protocols import SupportsSandboxPtyAttach as SupportsSandboxPtyAttach
from nemo_gym.sandbox.providers.protocols import (
    SupportsSandboxRuntimeRequirements as SupportsSandboxRuntimeRequirements,
)
from nemo_gym.sandbox.providers.protocols import (
    SupportsSandboxSharedStorage as SupportsSandboxSharedStorage,
)
from nemo_gym.sandbox.providers.specification import ExecResult as ExecResult
from nemo_gym.sandbox.providers.specification import SandboxCreateError as SandboxCreateError
from nemo_gym.sandbox.providers.specification import (
    SandboxCreateVerificationError as SandboxCreateVerificationError,
)
from nemo_gym.sandbox.providers.specification import SandboxEndpoint as SandboxEndpoint
from nemo_gym.sandbox.providers.specification import SandboxExecResult as SandboxExecResult
from nemo_gym.sandbox.providers.specification import SandboxHandle as SandboxHandle
from nemo_gym.sandbox.providers.specification import SandboxPtyError as SandboxPtyError
from nemo_gym.sandbox.providers.specification import SandboxPtySpec as SandboxPtySpec
from nemo_gym.sandbox.providers.specification import SandboxResources as SandboxResources
from nemo_gym.sandbox.providers.specification import SandboxSpec as SandboxSpec
from nemo_gym.sandbox.providers.specification import SandboxStatus as SandboxStatus
