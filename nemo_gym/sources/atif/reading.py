"""A trajectory as a scored row.

A trajectory that this gym wrote, and that nothing has changed since, is read as the row that it was. Any other one is
a conversation: the steps before the first one of the agent are the request, the others the response. Its row is marked
as foreign, and says whether every model call has its tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import finite_number, member
from nemo_gym.rows.compose import compose_foreign_row, put_items
from nemo_gym.sources.atif.media import MediaFolder
from nemo_gym.sources.atif.patches import apply_patch
from nemo_gym.sources.atif.steps import read_items
from nemo_gym.sources.atif.tokens import read_foreign_tokens, read_tokens
from nemo_gym.sources.atif.trajectory import OUR_DATA, AtifTrajectory
from nemo_gym.sources.atif.writing import digest_trajectory
from nemo_gym.sources.reading import ReadTrajectory, build_response, describe_tokens

_READ = frozenset(
    {
        *("step_id", "source", "message", "reasoning_content", "tool_calls", "observation"),
        *("metrics", "is_copied_context", "llm_call_count"),
    }
)
"""The fields of a step that a row has a place for."""


def read_trajectory(
    content: Any, place: str, media: MediaFolder | None = None, reward: float | None = None
) -> ReadTrajectory:
    """Read a trajectory. `reward` is that of its trial, if the trajectory states none.

    Raises ConfigError with all faults of an invalid one; `place` names it.
    """
    try:
        whole = AtifTrajectory.model_validate(content)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise ConfigError(
            f"{place} is no ATIF trajectory: {'; '.join(faults[:20])}", code="invalid_trajectory"
        ) from error
    if _is_ours(content):
        try:
            return ReadTrajectory(_restore(content, media), is_ours=True)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ConfigError(
                f"{place} has data of this gym that cannot be read: {error!r}", code="invalid_trajectory"
            ) from error
    return _read_foreign(content, whole, media, reward)


def _is_ours(content: Mapping[str, Any]) -> bool:
    stated = member(content, "extra", OUR_DATA, "digest")
    return isinstance(stated, str) and stated == digest_trajectory(content)


def _restore(content: dict[str, Any], media: MediaFolder | None) -> dict[str, Any]:
    parts: dict[str, dict[int, Any]] = {"input": {}, "output": {}}
    steps = [*content["steps"]]
    for each in content.get("subagent_trajectories") or ():
        steps += each["steps"]
    for step in steps:
        about = step["extra"][OUR_DATA]
        if about["part"] is None:
            continue
        items = apply_patch(read_items(step, media), about.get("items"))
        found = dict(zip(about["at"], items, strict=True))
        for index, rest in about.get("tokens", ()):
            found[index] = {**found[index], **read_tokens(step.get("metrics") or {}, rest)}
        parts[about["part"]] |= found
    given, output = ([part[index] for index in range(len(part))] for part in parts.values())
    return put_items(content["extra"][OUR_DATA]["row"], given, output)


def _read_foreign(
    content: dict[str, Any], whole: AtifTrajectory, media: MediaFolder | None, reward: float | None
) -> ReadTrajectory:
    conversation = _Conversation()
    for step in content["steps"]:
        conversation.add(step, media)
    agent = whole.agent
    about = {
        "format": whole.schema_version,
        "agent": agent.name,
        "agent_version": agent.version,
        "tokens": describe_tokens(conversation.calls, conversation.whole_calls),
    }
    if (name := whole.trajectory_id or whole.session_id) is not None:
        about["trajectory"] = name
    stated = finite_number(member(content, "extra", "reward"))
    params: dict[str, Any] = {"input": conversation.given}
    if agent.tool_definitions:
        params["tools"] = [*map(_read_tool, agent.tool_definitions)]
    model, usage = agent.model_name or "unknown", _count_usage(whole)
    response = build_response(name or "trajectory", model, conversation.output, usage)
    row = compose_foreign_row(params, response, agent.name, reward if stated is None else stated, about)
    lost = Counter(_list_lost(content, conversation))
    return ReadTrajectory(dict(row), is_ours=False, lost=lost)


def _count_usage(whole: AtifTrajectory) -> dict[str, Any] | None:
    totals = whole.final_metrics
    if totals is None or totals.total_prompt_tokens is None:
        return None
    sampled = totals.total_completion_tokens or 0
    return {
        "input_tokens": totals.total_prompt_tokens,
        "input_tokens_details": {"cached_tokens": totals.total_cached_tokens or 0},
        "output_tokens": sampled,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": totals.total_prompt_tokens + sampled,
    }


@dataclass(slots=True)
class _Conversation:
    """The steps so far: the request, the response, and the calls with and without tokens."""

    given: list[dict[str, Any]] = field(default_factory=list)
    output: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0
    whole_calls: int = 0

    def add(self, step: dict[str, Any], media: MediaFolder | None) -> None:
        items = read_items(step, media)
        is_copied = bool(step.get("is_copied_context"))
        if step["source"] == "agent" and not is_copied and step.get("llm_call_count") != 0:
            self.calls += 1
            tokens = read_foreign_tokens(step.get("metrics") or {})
            answers = [item for item in items if item["type"] != "function_call_output"]
            if tokens is not None and answers and step.get("llm_call_count") in (None, 1):
                self.whole_calls += 1
                answers[-1].update(tokens)
        is_begun = bool(self.output) or (step["source"] == "agent" and not is_copied)
        (self.output if is_begun else self.given).extend(items)


def _read_tool(definition: Mapping[str, Any]) -> dict[str, Any]:
    function = definition.get("function")
    if not isinstance(function, Mapping):
        return dict(definition)
    return {"type": "function", "strict": False, **function}


def _list_lost(content: dict[str, Any], conversation: _Conversation) -> Iterator[str]:
    """Yield the fields of a foreign trajectory that its row has no place for."""
    for step in content["steps"]:
        yield from (f"steps.{name}" for name in step if name not in _READ and step[name] is not None)
        for result in (step.get("observation") or {}).get("results") or ():
            yield from (
                f"observation.{name}" for name in ("subagent_trajectory_ref", "extra") if result.get(name)
            )
        yield from ("tool_calls.extra" for call in step.get("tool_calls") or () if call.get("extra"))
        metrics = step.get("metrics") or {}
        if metrics.get("completion_token_ids") and read_foreign_tokens(metrics) is None:
            yield "metrics.completion_token_ids"
        yield from (f"metrics.{name}" for name in ("cost_usd", "cached_tokens", "extra") if metrics.get(name))
    for name in ("notes", "continued_trajectory_ref", "subagent_trajectories"):
        yield from [name] * bool(content.get(name))
    yield from (f"extra.{name}" for name in content.get("extra") or {} if name != "reward")
