"""Rollouts of a transformers model through a whole gym: what is exported is what the model computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_gym.export.exporting import ExportSettings, export
from tests.export.rows import read, write
from tests.train.policy_gym import policy_gym, task

TOLERANCE = 1e-3


def largest_difference(model: Any, segments: list[Any]) -> float:
    """Between the log-probabilities of the sampled tokens as they were told and as `model` computes them."""
    import torch

    worst = 0.0
    for ids, told in segments:
        with torch.no_grad():
            computed = torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), dim=-1)
        differences = [
            abs(float(computed[place - 1, ids[place]]) - logprob)
            for place, logprob in enumerate(told)
            if logprob is not None
        ]
        worst = max(worst, *differences)
    return worst


def test_exported_logprobs_are_those_of_the_model(tmp_path: Path) -> None:
    from nemo_gym.testing.tiny_model import make_model, make_tokenizer
    from nemo_gym.testing.transformers_engine import TransformersEngine

    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    with policy_gym(TransformersEngine(model, tokenizer).app) as gym:
        gym.update_policy(7)
        tasks = [task("Say something."), task("Add 1.", after_a_tool_call=True)]
        rollouts = list(gym.rollouts(tasks, num_repeats=4))
    assert not [each.failure for each in rollouts if each.failure]
    path = tmp_path / "grpo.jsonl"
    export(
        ExportSettings(
            format="grpo",
            inputs=[write(tmp_path / "rows.jsonl", [dict(r.row) for r in rollouts])],
            output=path,
        )
    )
    written = read(path)
    assert len(written) == 8
    assert all(row["policy_versions"] == [7] for row in written)
    segments = [segment for row in written for segment in row["segments"]]
    assert largest_difference(model, [(each["input_ids"], each["logprobs"]) for each in segments]) < TOLERANCE
    for each in segments:
        assert sum(each["loss_mask"]) == sum(told is not None for told in each["logprobs"]) > 0
