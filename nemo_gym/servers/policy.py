"""The older import path of `nemo_gym.agents.policy`."""

from nemo_gym.agents.policy import Policy as Policy
from nemo_gym.agents.policy import Trajectory as Trajectory
from nemo_gym.agents.policy import add_usage as add_usage
from nemo_gym.agents.policy import calls_in as calls_in
from nemo_gym.agents.policy import input_items as input_items
from nemo_gym.agents.policy import read_answer as read_answer
from nemo_gym.agents.policy import user_message as user_message
from nemo_gym.agents.policy import without_tokens as without_tokens
