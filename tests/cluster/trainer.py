"""A trainer without training: `python trainer.py CONFIG` starts a gym and collects a batch for every line of its input.

The calls, and their order, are those of NeMo RL's environment and of verl's recipe.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from omegaconf import DictConfig

from nemo_gym.cli import GlobalConfigDictParserConfig, RunHelper
from nemo_gym.rollout_collection import RolloutCollectionHelper
from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME, BaseServerConfig

AGENT = "example_session_state_mgmt_simple_agent"
ROWS = 24


def row(number: int) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": "Raise the counter."},
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        "initial_count": 1,
        "expected_count": 1,
        "_rowidx": number,
    }


async def roll_out(helper: RolloutCollectionHelper, head: BaseServerConfig) -> list[dict[str, Any]]:
    """Return the results in the order of the rows."""
    results: dict[int, dict[str, Any]] = {}
    rows = [row(number) for number in range(ROWS)]
    for finished in helper.run_examples(examples=rows, head_server_config=head):
        given, result = await finished
        results[given["_rowidx"]] = {"response": result["response"], "reward": result["reward"]}
    return [results[number] for number in range(ROWS)]


def main() -> None:
    initial = json.loads(sys.argv[1])
    gym = RunHelper()
    gym.start(
        global_config_dict_parser_config=GlobalConfigDictParserConfig(
            initial_global_config_dict=DictConfig(initial), skip_load_from_cli=True
        )
    )
    head = BaseServerConfig(host=initial["advertised_host"], port=initial[HEAD_SERVER_KEY_NAME]["port"])
    helper, loop = RolloutCollectionHelper(), asyncio.new_event_loop()
    for _ in sys.stdin:
        gym.poll()
        sys.stdout.write(json.dumps(loop.run_until_complete(roll_out(helper, head))) + "\n")
        sys.stdout.flush()
    gym.shutdown()


if __name__ == "__main__":
    main()
