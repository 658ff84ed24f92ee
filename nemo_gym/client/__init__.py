"""A client for trainers: requests rollouts from a running gym.

Importing it loads only the standard library; other libraries are imported on first use.

    from nemo_gym.client import Gym

    gym = Gym.connect()                                  # the gym started in this folder
    for rollout in gym.rollouts(rows, num_repeats=8):    # as they finish
        print(rollout.task, rollout.repeat, rollout.reward)

    gym.update_policy(version=1, reload_weights=True)    # between two steps

An agent that makes its own model calls gets a base URL and a key, and its calls are recorded (docs/gateway.md):

    with gym.rollout(max_calls=100) as rollout:
        subprocess.run(["agent"], env={"OPENAI_BASE_URL": rollout.base_url, "OPENAI_API_KEY": rollout.key})
    calls = rollout.read()["calls"]

Recorded rollouts of a durable run are forked at any model call (docs/continue_fork_rewind.md):

    forks = gym.fork("results/rollouts.jsonl", turn=3, n=8)

`AsyncGym` is the same for event loops. Leaving the loop early cancels all rollouts in flight, including calls to the
engine. Failed rollouts have a `failure` and no `reward`. docs/routes.md describes the route.

- `trl`: the two functions that connect TRL's `GRPOTrainer` to a gym
"""

from nemo_gym.client._connecting import GymAddress, find_address
from nemo_gym.client._gym import AsyncGym, Gym, RolloutOptions
from nemo_gym.client._open_rollout import AsyncOpenRollout, OpenRollout, RolloutLimits
from nemo_gym.client._rollout import Rollout

__all__ = [
    "AsyncGym",
    "AsyncOpenRollout",
    "Gym",
    "GymAddress",
    "OpenRollout",
    "Rollout",
    "RolloutLimits",
    "RolloutOptions",
    "find_address",
]
