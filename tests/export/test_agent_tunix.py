from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_gym.export.report import LeftOut, Loss
from tests.export.rows import exported, failed, row, text, two_agents


def tokens(prompt: list[int], answer: list[int], version: int | None = None) -> dict[str, Any]:
    return {
        "prompt_token_ids": prompt,
        "generation_token_ids": answer,
        "generation_log_probs": [-0.5] * len(answer),
    }


def two_turns(repeat: int, reward: float) -> dict[str, Any]:
    user = {"type": "message", "role": "user", "content": "and?"}
    items = [text("a") | tokens([1, 2], [3]), user, text("b") | tokens([1, 2, 3, 4], [5, 6])]
    return row(0, repeat, reward, items, expected_answer=42)


def test_a_trajectory_begins_with_the_first_sampled_token(tmp_path: Path) -> None:
    (first, second), report = exported(tmp_path, "agent_tunix", [two_turns(0, 1.0), two_turns(1, 0.0)])
    assert first["prompt_tokens"] == [1, 2]
    assert first["conversation_tokens"] == [3, 4, 5, 6]
    assert first["conversation_masks"] == [1, 0, 1, 1]
    assert first["old_logprobs"] == [-0.5, 0.0, -0.5, -0.5]
    assert (first["trajectory_reward"], second["trajectory_reward"]) == (1.0, 0.0)
    assert first["original_input"] == {
        "prompts": ["Question 0?"],
        "question": ["Question 0?"],
        "answer": ["42"],
    }
    assert report.losses == {Loss.POLICY_VERSION: 2}


def test_a_group_that_lost_a_member_is_left_out_whole(tmp_path: Path) -> None:
    rows = [two_turns(0, 1.0), two_turns(1, 0.0), failed(0, 2)]
    _, report = exported(tmp_path, "agent_tunix", rows)
    assert report.left_out == {LeftOut.FAILED: 1, LeftOut.SHORT_GROUP: 2}
    written, _ = exported(tmp_path, "agent_tunix", rows, options={"num_generations": 2})
    assert [each["pair_index"] for each in written] == [0, 1]


def test_tasks_are_text(tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6 * 7?"}]
    (written,), _ = exported(
        tmp_path,
        "agent_tunix",
        [row(0, n, prompt=prompt, expected_answer="42") for n in range(3)],
        options={"form": "tasks"},
    )
    assert written == {"prompts": "Be brief.\n\n6 * 7?", "question": "6 * 7?", "answer": "42"}


def test_a_group_is_of_one_agent_and_its_size_is_that_of_one(tmp_path: Path) -> None:
    rows = two_agents((0, 1), (1, 0), (1, 1), tasks=2)
    written, report = exported(tmp_path, "agent_tunix", rows)
    assert not report.left_out
    assert [each["pair_index"] for each in written] == [0, 1, 2] * 4
    for start in range(0, 12, 3):
        group = written[start : start + 3]
        assert len({each["group_id"] for each in group}) == 1
        assert len({each["conversation_text"][-1]["content"][0] for each in group}) == 1


def test_a_task_of_several_agents_is_one_row(tmp_path: Path) -> None:
    rows = two_agents((0, 1), (1, 0), tasks=2)
    written, _ = exported(tmp_path, "agent_tunix", rows, options={"form": "tasks"})
    assert [each["question"] for each in written] == ["Question 0?", "Question 1?"]
