from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.mock_engine.drifting import ForgetfulTemplate
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from tests.export.consumers import check_verifiers_episode
from tests.export.rows import TOOL, call, exported, output, row, text, thought, token_rows, two_agents


def test_an_answer_has_flat_tools_and_its_reasoning_apart(tmp_path: Path) -> None:
    items = [thought("Hm."), call("Oslo"), output("rain"), text("It rains.")]
    (written,), _ = exported(tmp_path, "prime_rl", [row(0, items=items, tools=[TOOL])])
    assert written["prompt"] == [{"role": "user", "content": "Question 0?"}]
    assert written["completion"][0]["reasoning_content"] == "Hm."
    assert written["completion"][0]["tool_calls"][0]["function"]["arguments"] == '{"city":"Oslo"}'
    function = {key: value for key, value in TOOL.items() if key != "type"}
    assert orjson.loads(written["tools"]) == [{"type": "function", "function": function}]


@pytest.mark.parametrize("kind", ["steady", "drifting"])
async def test_the_branches_of_a_trace_are_the_segments(kind: str, tmp_path: Path) -> None:
    engine = {} if kind == "steady" else {"template": ForgetfulTemplate(), "odd_share": 0.3}
    rows = await token_rows(4, 2, kind, **engine)
    written, _ = exported(tmp_path, "prime_rl", rows, options={"form": "traces"})
    several = 0
    for each in rows:
        episode = next(
            e for e in written if e["id"] == f"{each['_ng_task_index']}-{each['_ng_rollout_index']}"
        )
        segments = build_segments(read_calls(each))
        assert check_verifiers_episode(episode) == [
            {
                "token_ids": segment.token_ids,
                "mask": [bool(bit) for bit in segment.loss_mask],
                "logprobs": [logprob for logprob in segment.logprobs if logprob is not None],
            }
            for segment in segments
        ]
        assert episode["group"]["id"] == str(each["_ng_task_index"])
        assert episode["traces"][0]["rewards"] == {"reward": {"score": each["reward"]}}
        several += len(segments) > 1
    assert (several > 0) is (kind == "drifting")


def test_the_group_of_an_episode_is_of_one_agent(tmp_path: Path) -> None:
    written, _ = exported(tmp_path, "prime_rl", two_agents((0, 1), (1, 0)), options={"form": "traces"})
    assert len({each["id"] for each in written}) == 4
    assert sorted((each["group"]["id"], each["env"]["id"]) for each in written) == [
        ("0:a", "a"), ("0:a", "a"), ("0:b", "b"), ("0:b", "b"),
    ]  # fmt: skip
