"""The older import path of `nemo_gym.agents.policy`."""

from nemo_gym.agents.policy import (
    Policy,
    Trajectory,
    add_usage,
    calls_in,
    input_items,
    read_answer,
    user_message,
    without_tokens,
)

__all__ = [
    "Policy",
    "Trajectory",
    "add_usage",
    "calls_in",
    "input_items",
    "read_answer",
    "user_message",
    "without_tokens",
]
