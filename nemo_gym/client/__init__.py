"""Rollouts from a running gym, for trainers. Nothing here imports more than the standard library until it is used.

    from nemo_gym.client import Gym

    gym = Gym.connect()                                  # the gym that was started in this folder
    for rollout in gym.rollouts(rows, num_repeats=8):    # as they finish
        print(rollout.task, rollout.repeat, rollout.reward)

    gym.update_policy(version=1, reload_weights=True)    # between two steps

`AsyncGym` is the same for event loops. Leaving the loop early cancels what is in flight, down to the engine. A rollout
that failed is among them, with a `failure` and no `reward`. docs/routes.md has the route behind it.
"""

from nemo_gym.client._connecting import GymAddress, find_address
from nemo_gym.client._gym import AsyncGym, Gym, RolloutOptions
from nemo_gym.client._rollout import Rollout

__all__ = ["AsyncGym", "Gym", "GymAddress", "Rollout", "RolloutOptions", "find_address"]
