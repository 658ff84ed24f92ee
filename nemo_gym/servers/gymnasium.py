"""The older import path of `nemo_gym.resources.gymnasium`."""

from nemo_gym.resources.gymnasium import EnvResetRequest as EnvResetRequest
from nemo_gym.resources.gymnasium import EnvResetResponse as EnvResetResponse
from nemo_gym.resources.gymnasium import EnvStepRequest as EnvStepRequest
from nemo_gym.resources.gymnasium import EnvStepResponse as EnvStepResponse
from nemo_gym.resources.gymnasium import GymnasiumServer as GymnasiumServer
from nemo_gym.resources.gymnasium import StepResult as StepResult
from nemo_gym.resources.gymnasium import extract_text as extract_text
from nemo_gym.resources.gymnasium import last_action as last_action
