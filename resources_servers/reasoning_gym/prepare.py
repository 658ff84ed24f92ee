"""Generate task rows. Each is validated with its scorer.

python resources_servers/reasoning_gym/prepare.py --task knights_knaves --size 100 --seed 0 --output train.jsonl
python resources_servers/reasoning_gym/prepare.py --task all --size 5 --seed 0 --output all.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.datasets.making import new_parser, write_rows
from nemo_gym.rows.compose import compose_task_row
from resources_servers.reasoning_gym.scoring import check_row, make_dataset, quietly, task_names

SYSTEM_PROMPT = (
    "Think the problem through. Then give your final answer, and nothing else, between <answer> and </answer>, "
    "in exactly the format that the problem asks for."
)


def generate_rows(
    task: str, *, size: int, seed: int, config: Mapping[str, Any], system_prompt: str = SYSTEM_PROMPT
) -> Iterator[dict[str, Any]]:
    """Yield `size` rows of one dataset, generated with the options `config`."""
    dataset = make_dataset(task, {**config, "size": size, "seed": seed})
    for index in range(size):
        with quietly():
            made = dataset[index]
        entry = {key: made[key] for key in ("question", "answer", "metadata")}
        entry_text = json.dumps(entry, default=str)  # a few datasets contain fractions, which JSON lacks
        check_row(entry_text, json.dumps(dict(config), sort_keys=True))
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        row = compose_task_row([*system, {"role": "user", "content": made["question"]}])
        yield {**row, **json.loads(entry_text), **({"dataset_config": dict(config)} if config else {})}


def main(arguments: list[str] | None = None) -> None:
    options = _read_options(arguments)
    if options.list:
        print("\n".join(task_names()))
        return
    tasks = task_names() if "all" in options.task else options.task
    rows = (
        row
        for task in tasks
        for row in generate_rows(
            task,
            size=options.size,
            seed=options.seed,
            config=options.config,
            system_prompt=options.system_prompt,
        )
    )
    write_rows(rows, options.output, noun=f"rows of {len(tasks)} tasks")


def _read_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--task", nargs="+", default=[], help="names of datasets, or `all`")
    parser.add_argument("--list", action="store_true", help="list all datasets and exit")
    parser.add_argument("--size", type=int, default=5, help="rows of each dataset")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--config",
        type=json.loads,
        default={},
        help="options of the dataset as a JSON object, for one --task",
    )
    parser.add_argument("--system-prompt", default=SYSTEM_PROMPT, help="an empty one leaves it out")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    if not options.list and (not options.task or options.output is None):
        parser.error("--task and --output are required")
    if options.config and (len(options.task) != 1 or "all" in options.task):
        parser.error("--config requires the name of exactly one dataset")
    if not isinstance(options.config, dict):
        parser.error("--config must be a JSON object")
    return options


if __name__ == "__main__":
    main()
