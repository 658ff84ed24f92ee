"""Search the datasets for short answers that win tasks whatever the task says, and list them. Exit code 1 if there are.

python resources_servers/reasoning_gym/search.py --size 20 --seed 1
python resources_servers/reasoning_gym/search.py --task coin_flip complex_arithmetic
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from nemo_gym.failures import VerifierError
from nemo_gym.verify.lucky_answers import SHORT_ANSWERS, LuckyAnswer, find_lucky_answers
from nemo_gym.verify.made_answers import make_answers
from resources_servers.reasoning_gym.prepare import generate_rows
from resources_servers.reasoning_gym.scoring import score_answer, task_names


def search_task(
    task: str, *, size: int, seed: int, answers: Sequence[str] = SHORT_ANSWERS
) -> list[LuckyAnswer]:
    """Return the lucky answers to `size` tasks of a dataset."""
    rows = generate_rows(task, size=size, seed=seed, config={})
    entries = [{key: row[key] for key in ("question", "answer", "metadata")} for row in rows]
    tasks = [(json.dumps(entry), entry["answer"]) for entry in entries]
    made = [make_answers(entry["question"]) for entry in entries]
    return find_lucky_answers(tasks, answers, _score, made)


def _score(entry_text: str, answer: str) -> float:
    try:
        return score_answer(entry_text, "{}", answer)
    except VerifierError:  # scored 0 as the answer's fault
        return 0.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--task", nargs="+", help="names of datasets; all by default")
    parser.add_argument("--size", type=int, default=20, help="tasks of each dataset")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    is_any_lucky = False
    for task in options.task or task_names():
        for lucky in search_task(task, size=options.size, seed=options.seed)[:5]:
            is_any_lucky = True
            wins = f"{lucky.answer!a} wins {lucky.won} of {lucky.tasks}, mean {lucky.mean:.2f}"
            sys.stdout.write(f"{task}: {wins}\n")
    return int(is_any_lucky)


if __name__ == "__main__":
    raise SystemExit(main())
