"""Inspect's own runner, run by an interpreter that has it: samples of tasks, one after the other, and their logs.

python native_inspect.py '[{"task": "tasks.py@capitals", "arguments": {}, "urls": ["POLICY", "ROLES"], …}]'
"""

from __future__ import annotations

import contextlib
import json
import sys

from inspect_ai import eval as evaluate
from inspect_ai.model import get_model
from inspect_ai.scorer import value_to_float


def describe(sample):
    read = value_to_float()
    scores = {}
    for name, score in (sample.scores or {}).items():
        parts = score.value if isinstance(score.value, dict) else {None: score.value}
        scores |= {name if key is None else f"{name}_{key}": read(part) for key, part in parts.items()}
    return {
        "scores": scores,
        "limit": sample.limit.type if sample.limit else None,
        "messages": len(sample.messages),
        "texts": [message.text for message in sample.messages if message.text],
        "is_error": sample.error is not None,
    }


def play(given):
    """Return every sample of a task."""
    policy, others = (
        get_model("openai-api/gym/policy", base_url=url, api_key="none") for url in given["urls"]
    )
    [log] = evaluate(
        given["task"],
        model=policy,
        model_roles=dict.fromkeys(("grader", "user"), others),
        task_args=given["arguments"],
        sandbox=given["sandbox"],
        sample_id=given["samples"],
        log_dir=given["logs"],
        log_format=given["format"],
        display="none",
        max_samples=1,
        fail_on_error=False,
        max_retries=0,
    )
    return {str(sample.id): describe(sample) for sample in log.samples or ()}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        result = [play(each) for each in json.loads(sys.argv[1])]
    print(json.dumps(result))
