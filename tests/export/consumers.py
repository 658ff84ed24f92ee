"""The checks that the readers of exports make, written from their documentation; each fails where its reader would."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson

ROLES = {"system", "user", "assistant", "tool"}


def check_chat(messages: list[dict[str, Any]], *, arguments: type) -> None:
    """The requirements of chat templates: known roles, text, calls with a name, outputs of a call that was made."""
    assert messages
    open_calls: Counter[str] = Counter()
    for message in messages:
        assert message["role"] in ROLES
        assert isinstance(message["content"], str)
        if message["role"] == "tool":
            assert open_calls[message["tool_call_id"]] > 0
            open_calls[message["tool_call_id"]] -= 1
        calls = message.get("tool_calls") or []
        assert not calls or message["role"] == "assistant"
        for call in calls:
            assert call["type"] == "function"
            assert re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"])  # Mistral's templates insist
            assert call["function"]["name"]
            written = call["function"]["arguments"]
            assert type(written) is arguments
            parsed: Any = orjson.loads(str(written)) if arguments is str else written
            assert isinstance(parsed, dict)
            open_calls[call["id"]] += 1


def check_tools(tools: Sequence[dict[str, Any]]) -> None:
    for tool in tools:
        assert tool["type"] == "function"
        assert tool["function"]["name"]


def check_trl_sft(row: dict[str, Any]) -> None:
    assert row.keys() <= {"messages", "tools"}
    check_chat(row["messages"], arguments=dict)
    assert row["messages"][-1]["role"] == "assistant"
    check_tools(orjson.loads(row.get("tools", "[]")))


def check_trl_tokens(row: dict[str, Any]) -> None:
    """SFTTrainer takes `labels` unchanged, and drops rows in which all are -100."""
    assert row.keys() == {"input_ids", "labels", "grammar_mask"}
    assert len(row["input_ids"]) == len(row["labels"]) > 1
    assert row["labels"][0] == -100, "what nothing comes before can't be predicted"
    learnt = [
        (token, label) for token, label in zip(row["input_ids"], row["labels"], strict=True) if label != -100
    ]
    assert learnt
    assert all(token == label for token, label in learnt)


def check_trl_dpo(row: dict[str, Any]) -> None:
    assert row.keys() <= {"prompt", "chosen", "rejected", "tools"}
    for side in ("chosen", "rejected"):
        check_chat(row["prompt"] + row[side], arguments=dict)
        assert row[side][0]["role"] == row[side][-1]["role"] == "assistant"
    assert row["prompt"][-1]["role"] != "assistant"
    check_tools(orjson.loads(row.get("tools", "[]")))


def check_trl_kto(row: dict[str, Any]) -> None:
    assert row.keys() <= {"prompt", "completion", "label", "tools"}
    check_chat(row["prompt"] + row["completion"], arguments=dict)
    assert isinstance(row["label"], bool)


def check_verl_sft(row: dict[str, Any]) -> None:
    check_chat(row["messages"], arguments=str)
    check_tools(row["tools"] or ())


def check_verl_rl(row: dict[str, Any]) -> None:
    assert row.keys() == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    check_chat(row["prompt"], arguments=str)
    assert row["reward_model"].keys() == {"style", "ground_truth"}
    assert isinstance(row["extra_info"]["index"], int)


def check_tunix_groups(rows: list[dict[str, Any]], num_generations: int) -> None:
    """The learner takes consecutive groups, pads them, and reshapes rewards to (groups, generations)."""
    assert len(rows) % num_generations == 0
    for start in range(0, len(rows), num_generations):
        group = rows[start : start + num_generations]
        assert len({row["group_id"] for row in group}) == 1
        assert [row["pair_index"] for row in group] == list(range(num_generations))
    for row in rows:
        length = len(row["conversation_tokens"])
        assert length == len(row["conversation_masks"]) == len(row["old_logprobs"]) > 0
        assert row["prompt_tokens"]
        assert row["conversation_masks"][0] == 1
        assert isinstance(row["policy_version"], int)
        assert isinstance(row["trajectory_reward"], float)
        first = next(m["content"] for m in row["conversation_text"] if m["role"] == "assistant")
        assert isinstance(first, str)
        assert all(isinstance(value, list) and len(value) == 1 for value in row["original_input"].values())
        assert isinstance(row["original_input"]["prompts"][0], str)


def check_agent_tunix_task(row: dict[str, Any]) -> None:
    assert row.keys() == {"prompts", "question", "answer"}
    assert all(isinstance(value, str) for value in row.values())
    assert row["question"]
    assert row["question"] in row["prompts"]


def check_prime_rl_sft(row: dict[str, Any]) -> None:
    """Arguments are JSON text that it parses; tools are OpenAI's, a list or JSON text of one."""
    assert row.keys() <= {"prompt", "completion", "tools"}
    check_chat(row["prompt"] + row["completion"], arguments=str)
    check_tools(orjson.loads(row.get("tools") or "[]"))


def check_verifiers_episode(row: dict[str, Any]) -> list[dict[str, list[Any]]]:
    """The training samples of an episode: the branches of its graph, assembled node by node."""
    (trace,) = row["traces"]
    nodes = trace["nodes"]
    parents = {node["parent"] for node in nodes if "parent" in node}
    for place, node in enumerate(nodes):
        assert node.get("parent", -1) < place
        assert ("tools" in node) == ("parent" not in node)
        assert len(node.get("token_ids", [])) == len(node.get("mask", []))
        assert sum(node.get("mask", [])) == len(node.get("logprobs", []))
        assert node["sampled"] == any(node.get("mask", []))
        assert not node["sampled"] or node["message"]["role"] == "assistant"
        for tool_call in node["message"].get("tool_calls", ()):
            assert isinstance(tool_call["arguments"], str)
    assert all(nodes[model_call["node"]]["sampled"] for model_call in trace["calls"])
    return [_branch(nodes, leaf) for leaf in range(len(nodes)) if leaf not in parents]


def _branch(nodes: list[dict[str, Any]], leaf: int) -> dict[str, list[Any]]:
    path = []
    at: int | None = leaf
    while at is not None:
        path.append(nodes[at])
        at = nodes[at].get("parent")
    path.reverse()
    return {
        "token_ids": [token for node in path for token in node.get("token_ids", [])],
        "mask": [bit for node in path for bit in node.get("mask", [])],
        "logprobs": [logprob for node in path for logprob in node.get("logprobs", [])],
    }


def check_openenv_trace(row: dict[str, Any]) -> None:
    """Strict objects without other members; a mask covers prompt and completion, and is 0 in the prompt."""
    assert row.keys() == {"schema_version", "turns"}
    assert row["schema_version"] == 1
    assert len({turn["node_id"] for turn in row["turns"]}) == len(row["turns"]) > 0
    for turn in row["turns"]:
        prompt, completion, logps = (
            turn[name] for name in ("prompt_token_ids", "completion_token_ids", "per_token_logps")
        )
        assert prompt
        assert len(completion) == len(logps)
        assert all(isinstance(value, float) and value <= 0 for value in logps)
        assert len(turn["loss_mask"]) == len(prompt) + len(completion)
        assert not any(turn["loss_mask"][: len(prompt)])


def check_llama_factory(row: dict[str, Any]) -> None:
    """Turns are at odd and even places by their kind; tools and calls are parsed again."""
    turns = row["conversations"]
    if turns[0]["from"] == "system":
        turns = turns[1:]
    assert turns
    assert len(turns) % 2 == 0
    for place, turn in enumerate(turns):
        assert turn["from"] in (("human", "observation"), ("gpt", "function_call"))[place % 2]
        assert isinstance(turn["value"], str)
        if turn["from"] == "function_call":
            calls = orjson.loads(turn["value"])
            for each in calls if isinstance(calls, list) else [calls]:
                assert isinstance(each["name"], str)
                assert isinstance(each["arguments"], dict)
    for tool in orjson.loads(row.get("tools", "[]")):
        assert tool["name"]
        assert tool["parameters"]


def check_openai(row: dict[str, Any]) -> None:
    """The checks of OpenAI's guide to preparing a fine-tuning file, and those of its API on tools."""
    assert row.keys() <= {"messages", "tools", "parallel_tool_calls"}
    known = {"role", "content", "name", "tool_calls", "tool_call_id", "weight"}
    waiting: set[str] = set()
    for message in row["messages"]:
        assert message.keys() <= known
        assert message["role"] in ROLES
        assert "weight" not in message or (message["role"] == "assistant" and message["weight"] in (0, 1))
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.discard(message["tool_call_id"])
            continue
        assert not waiting, "every call has its output before the next message"
        for call in message.get("tool_calls", ()):
            assert isinstance(call["function"]["arguments"], str)
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            waiting.add(call["id"])
        assert message["content"] or message.get("tool_calls") or isinstance(message["content"], str)
    assert row["messages"][-1]["role"] == "assistant"
    assert any(m["role"] == "assistant" and m.get("weight", 1) for m in row["messages"])
    assert len(row.get("tools", ())) <= 128
    assert "parallel_tool_calls" not in row or row["tools"]
