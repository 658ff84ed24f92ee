from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nemo_gym.client import Rollout
from nemo_gym.client.trl import build_trl_columns, gym_reward
from nemo_gym.failures import ConfigError
from nemo_gym.tokens.ids import IdSequence, encode_ids
from tests.export.rows import call, failed, output, row, text

TOKENIZER = SimpleNamespace(eos_token_id=9)


def tokens(prompt: list[int], answer: list[int]) -> dict[str, Any]:
    return {
        "prompt_token_ids": prompt,
        "generation_token_ids": answer,
        "generation_log_probs": [-0.5] * len(answer),
    }


def two_turns(task: int, reward: float, **fields: Any) -> Rollout:
    items = [
        call("Oslo") | tokens([1, 2], [3, 4]),
        output("rain"),
        text("It rains.") | tokens([1, 2, 3, 4, 5, 6], [7]),
    ]
    return Rollout(row(task, 0, reward, items, **fields))


def test_what_the_policy_sampled_is_trained_on_and_outputs_of_tools_are_masked() -> None:
    columns = build_trl_columns([two_turns(0, 0.5)], 1, TOKENIZER)
    assert columns == {
        "prompt_ids": [[1, 2]],
        "completion_ids": [[3, 4, 5, 6, 7]],
        "logprobs": [[-0.5, -0.5, 0.0, 0.0, -0.5]],
        "env_mask": [[1, 1, 0, 0, 1]],
        "grammar_mask": [[0, 0, 0, 0, 0]],
        "gym_rewards": [0.5],
    }
    assert gym_reward([], **columns) == [0.5]


def test_tokens_sampled_under_a_grammar_are_marked_and_can_be_masked() -> None:
    rollout = two_turns(0, 0.5)
    first, _, last = rollout.row["response"]["output"]
    begun, whole = (IdSequence(encode_ids(list(range(1, end)))).fingerprint for end in (5, 8))
    first["_ng_tokens"] = {"call": 0, "sequence": begun, "sampling": {"grammar": True}}
    last["_ng_tokens"] = {"call": 1, "sequence": whole, "base": begun, "kept": 4}
    columns = build_trl_columns([rollout], 1, TOKENIZER)
    assert (columns["env_mask"], columns["grammar_mask"]) == ([[1, 1, 0, 0, 1]], [[1, 1, 0, 0, 0]])
    columns = build_trl_columns([rollout], 1, TOKENIZER, learns_grammar=False)
    assert (columns["prompt_ids"], columns["env_mask"]) == ([[1, 2, 3, 4, 5, 6]], [[1]])


def test_prompts_keep_their_places_however_rollouts_finish() -> None:
    columns = build_trl_columns([two_turns(task, task / 4) for task in (2, 0, 1)], 3, TOKENIZER)
    assert columns["gym_rewards"] == [0.0, 0.25, 0.5]


@pytest.mark.parametrize(
    "unfit",
    [
        Rollout(failed(1)),
        two_turns(1, 99.0, _ng_masked=True),
        two_turns(1, 99.0, mask_sample=True),
        Rollout(row(1, 0, 99.0)),
    ],
    ids=["failed", "masked", "masked by its environment", "without tokens"],
)
def test_what_is_not_to_be_learnt_has_no_reward_and_no_token_of_the_policy(unfit: Rollout) -> None:
    columns = build_trl_columns([two_turns(0, 0.5), unfit], 2, TOKENIZER)
    assert columns["gym_rewards"] == [0.5, None]
    assert columns["env_mask"][1] == [0]
    assert len({len(column) for column in columns.values()}) == 1


def test_after_a_rewrite_of_the_prefix_the_first_segment_is_trained_on() -> None:
    drifted = row(0, 0, 1.0, [text("a") | tokens([1], [2]), text("b") | tokens([1, 5, 6], [7])])
    columns = build_trl_columns([Rollout(drifted)], 1, TOKENIZER)
    assert (columns["prompt_ids"], columns["completion_ids"]) == ([[1]], [[2]])


def test_a_gym_that_gives_no_token_ids_is_an_error_and_not_a_step_that_learns_nothing() -> None:
    with pytest.raises(ConfigError, match="none of 2 scored rollouts") as caught:
        build_trl_columns([Rollout(row(task)) for task in range(2)], 2, TOKENIZER)
    assert "return_token_id_information" in str(caught.value)


def test_a_reward_that_an_answer_could_have_forged_is_refused() -> None:
    rollout = two_turns(0, 1.0, tamperable=True)
    with pytest.raises(ConfigError, match="task 0 is tamperable") as caught:
        build_trl_columns([rollout], 1, TOKENIZER)
    assert caught.value.failure.code == "tamperable_rewards"
    assert build_trl_columns([rollout], 1, TOKENIZER, allow_tamperable=True)["gym_rewards"] == [1.0]
