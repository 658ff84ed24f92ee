"""Prints what verl's own datasets read: `python load_verl.py SFT_PARQUET RL_PARQUET`."""

import json
import sys

from omegaconf import OmegaConf
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
from verl.utils.dataset.rl_dataset import RLHFDataset

from nemo_gym.testing.tiny_model import make_tokenizer


def main(answers: str, tasks: str) -> None:
    tokenizer = make_tokenizer()
    sft = MultiTurnSFTDataset(answers, tokenizer, {"max_length": 2048})
    learnt = [tokenizer.decode(sft[n]["input_ids"][sft[n]["loss_mask"].bool()]) for n in range(len(sft))]
    config = {"filter_overlong_prompts": False, "cache_dir": f"{tasks}.cache"}
    rl = RLHFDataset(tasks, tokenizer, OmegaConf.create(config))
    prompts = [rl[n]["raw_prompt"] for n in range(len(rl))]
    sys.stdout.write("\n" + json.dumps({"learnt": learnt, "prompts": prompts}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
