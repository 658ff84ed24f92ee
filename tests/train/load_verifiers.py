"""Prints the branches that verifiers reads from a folder's `traces.jsonl`: `python load_verifiers.py FOLDER`."""

import json
import sys
from pathlib import Path

from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.state import State
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import Trace
from verifiers.v1.utils.trace_store import read_episodes


def main(folder: str) -> None:
    episodes = read_episodes(Path(folder), Trace[WireTaskData, State, WireAgentConfig])
    found = [
        {
            "reward": trace.reward,
            "branches": [
                {"token_ids": branch.token_ids, "mask": branch.sampled_mask, "logprobs": branch.logprobs}
                for branch in trace.branches
            ],
        }
        for episode in episodes
        for trace in episode.traces
    ]
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
