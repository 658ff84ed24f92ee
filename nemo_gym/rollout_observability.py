"""The ecosystem's import path for the record of an agent."""

from nemo_gym.protocol.observations import AgentEpisode as AgentEpisode
from nemo_gym.protocol.observations import AgentInvocation as AgentInvocation
from nemo_gym.protocol.observations import AgentObservationBundle as AgentObservationBundle
from nemo_gym.protocol.observations import ContextCompactionObservation as ContextCompactionObservation
from nemo_gym.protocol.observations import ModelCallRef as ModelCallRef
from nemo_gym.protocol.observations import ObservationGap as ObservationGap
from nemo_gym.protocol.observations import SandboxObservation as SandboxObservation
from nemo_gym.protocol.observations import ToolCallObservation as ToolCallObservation
from nemo_gym.protocol.observations import TrajectoryRecord as TrajectoryRecord
from nemo_gym.protocol.observations import TrajectoryToolCall as TrajectoryToolCall
from nemo_gym.protocol.observations import TrajectoryTurn as TrajectoryTurn
