"""Prints what verl's agent loop returns for a row: `python loop_verl.py URL TOKEN ROW`."""

import asyncio
import json
import sys
from types import SimpleNamespace

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset

from nemo_gym.client.verl_loop import GymAgentLoop, build_verl_row
from nemo_gym.testing.tiny_model import make_tokenizer


async def main(url: str, token: str, row: str) -> None:
    config = OmegaConf.create(
        {"actor_rollout_ref": {"rollout": {"prompt_length": 512, "response_length": 12}}}
    )
    loop = GymAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=SimpleNamespace(),
        tokenizer=make_tokenizer(),
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(OmegaConf.create({})),
        url=url,
        token=token,
    )
    given = build_verl_row(json.loads(row), 0)
    output = await loop.run({"temperature": 1.0, "top_p": 1.0, "logprobs": True}, **given)
    output.as_dict()
    told = output.model_dump(exclude={"multi_modal_data", "routed_experts"})
    try:
        await loop.run({}, **{**given, "extra_info": {}})
    except Exception as error:  # noqa: BLE001 - its text is what is looked at
        told["error"] = str(error)
    sys.stdout.write("\n" + json.dumps(told) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
