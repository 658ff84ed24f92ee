"""A scored row as a trajectory.

What the format has no field for is in `extra`, beside the step or the whole, and is counted by kind. A step holds only
the difference between its items and those that are read from it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

import orjson

from nemo_gym.json_objects import dump_json, parse_json
from nemo_gym.rows.calls import WholeCall, read_whole_calls
from nemo_gym.rows.compose import take_items
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import identity_in
from nemo_gym.rows.parts import read_agent_or_unknown, read_params, read_response, read_usage
from nemo_gym.rows.verdict import read_reward
from nemo_gym.sources.atif.drafts import Draft, Drafts, Item, StepPart, group_hidden
from nemo_gym.sources.atif.media import MediaFolder
from nemo_gym.sources.atif.patches import make_patch
from nemo_gym.sources.atif.steps import read_items
from nemo_gym.sources.atif.tokens import write_metrics
from nemo_gym.sources.atif.trajectory import OUR_DATA
from nemo_gym.tokens.reasons import SegmentReason
from nemo_gym.tokens.records import CARRIED_FIELDS, RECORD_FIELD

_VERSION, _WITH_AUDIO = "ATIF-v1.7", "ATIF-v1.8"
_REWRITTEN = (SegmentReason.COMPACTED, SegmentReason.EDITED)
_TEXTS = frozenset({"input_text", "output_text", "text", "refusal"})


@dataclass(slots=True)
class WrittenTrajectory:
    """A trajectory, and what only its `extra` holds."""

    content: dict[str, Any]
    kept_aside: Counter[str] = field(default_factory=Counter)
    """Kind → how many: `item:web_search_call`, `arguments`, `content:input_file`, `rewritten_history`, `subagent`."""


def write_trajectory(row: AnyRow, media: MediaFolder | None = None) -> WrittenTrajectory:
    """Return a row as a trajectory; images and audio become files of `media`, which must be there for both."""
    return _Writer(row, media).write()


@cache
def _our_version() -> str:
    return metadata.version("nemo-gym")


class _Writer:
    def __init__(self, row: AnyRow, media: MediaFolder | None) -> None:
        self._row = row
        self._media = media
        self._kept: Counter[str] = Counter()
        self._has_audio = False
        self._calls: dict[int, WholeCall] = {call.position: call for call in read_whole_calls(row)}

    def write(self) -> WrittenTrajectory:
        rest, given, output = take_items(self._row)
        drafts = Drafts()
        drafts.add_all("input", given)
        drafts.add_all("output", output)
        steps = self._write_instructions(is_needed=not drafts.steps)
        for draft in drafts.steps:
            steps.append(self._write_step(draft, len(steps) + 1))
        identity = identity_in(self._row)
        name = f"{identity.task}-{identity.repeat}" if identity is not None else "rollout"
        agent = self._agent()
        subagents = [
            self._write_subagent(group, f"{name}/{number}", agent)
            for number, group in enumerate(group_hidden(drafts.hidden), 1)
        ]
        ours: dict[str, Any] = {"row": rest}
        content: dict[str, Any] = {
            "schema_version": _WITH_AUDIO if self._has_audio else _VERSION,
            "session_id": name,
            "trajectory_id": name,
            "agent": agent,
            "steps": steps,
            "final_metrics": {**self._totals(), "total_steps": len(steps)},
            "extra": {"reward": read_reward(self._row), OUR_DATA: ours},
            **({"subagent_trajectories": subagents} if subagents else {}),
        }
        ours["digest"] = digest_trajectory(content)
        return WrittenTrajectory(content, self._kept)

    def _write_instructions(self, *, is_needed: bool) -> list[dict[str, Any]]:
        """Return the step of the instructions, which the row keeps elsewhere, or of a row without any item."""
        text = read_params(self._row).get("instructions")
        if not isinstance(text, str) and not is_needed:
            return []
        message = text if isinstance(text, str) else ""
        return [{"step_id": 1, "source": "system", "message": message, "extra": {OUR_DATA: {"part": None}}}]

    def _agent(self) -> dict[str, Any]:
        response, tools = read_response(self._row), read_params(self._row).get("tools") or ()
        agent: dict[str, Any] = {"name": read_agent_or_unknown(self._row), "version": _our_version()}
        if isinstance(response.get("model"), str):
            agent["model_name"] = response["model"]
        if definitions := [_define_tool(tool) for tool in tools if isinstance(tool, Mapping)]:
            agent["tool_definitions"] = definitions
        return agent

    def _totals(self) -> dict[str, int]:
        usage = read_usage(self._row)
        cached = usage.get("input_tokens_details")
        named = {
            "total_prompt_tokens": usage.get("input_tokens"),
            "total_completion_tokens": usage.get("output_tokens"),
            "total_cached_tokens": cached.get("cached_tokens") if isinstance(cached, Mapping) else None,
        }
        return {name: value for name, value in named.items() if type(value) is int}

    def _write_subagent(
        self, group: list[tuple[int, Item]], name: str, agent: dict[str, Any]
    ) -> dict[str, Any]:
        """Write the calls of a conversation beside the main one. A row has their tokens, and not their texts."""
        self._kept["subagent"] += 1
        drafts = [
            Draft("output", "agent", [(StepPart.REASONING, index, item)], True) for index, item in group
        ]
        steps = [self._write_step(draft, number) for number, draft in enumerate(drafts, 1)]
        about = {key: value for key, value in agent.items() if key != "tool_definitions"}
        return {"schema_version": _VERSION, "trajectory_id": name, "agent": about, "steps": steps}

    def _write_step(self, draft: Draft, number: int) -> dict[str, Any]:
        step: dict[str, Any] = {"step_id": number, "source": draft.source, "message": ""}
        if draft.part == "input" and draft.source == "agent":
            step["is_copied_context"] = True
        ordered = draft.ordered()
        if draft.is_opaque:
            if draft.source == "agent" and RECORD_FIELD not in ordered[0][2]:
                first = ordered[0][2]
                self._kept[f"item:{first.get('type') or first.get('role')}"] += 1
        else:
            self._fill(step, ordered)
        plain = [_drop_tokens(item) for _, _, item in ordered]
        about: dict[str, Any] = {"part": draft.part, "at": [index for _, index, _ in ordered]}
        if (patch := make_patch(read_items(step, self._media), plain)) is not None:
            about["items"] = patch
        if draft.part == "output":
            self._add_metrics(step, about, ordered)
        step["extra"] = {OUR_DATA: about}
        return step

    def _fill(self, step: dict[str, Any], ordered: list[tuple[StepPart, int, Item]]) -> None:
        texts = [_read_reasoning(item) for place, _, item in ordered if place is StepPart.REASONING]
        if texts:
            step["reasoning_content"] = "\n\n".join(texts)
        for place, _, item in ordered:
            if place is StepPart.MESSAGE:
                step["message"] = self._write_content(
                    item.get("content"), is_answer=step["source"] == "agent"
                )
            elif place is StepPart.CALL:
                step.setdefault("tool_calls", []).append(self._write_call(item))
            elif place is StepPart.OUTPUT:
                result = {"content": self._write_content(item.get("output"))}
                known = {call["tool_call_id"] for call in step.get("tool_calls", ())}
                if item.get("call_id") in known:
                    result = {"source_call_id": item["call_id"], **result}
                step.setdefault("observation", {"results": []})["results"].append(result)

    def _write_call(self, item: Item) -> dict[str, Any]:
        text = item.get("arguments")
        try:
            arguments = parse_json(text or "{}") if isinstance(text, str) else text
        except orjson.JSONDecodeError:
            arguments = None
        if not isinstance(arguments, dict):
            self._kept["arguments"] += 1
            arguments = {}
        name, call_id = str(item.get("name") or ""), str(item.get("call_id") or "")
        return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}

    def _write_content(self, content: Any, *, is_answer: bool = False) -> Any:
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            return "" if content is None else dump_json(content).decode()
        parts = [self._write_part(part) for part in content]
        is_text = is_answer and len(parts) == 1 and parts[0]["type"] == "text"
        return parts[0]["text"] if is_text else parts

    def _write_part(self, part: Any) -> dict[str, Any]:
        kind = part.get("type") if isinstance(part, Mapping) else None
        source = None
        if kind in _TEXTS:
            return {"type": "text", "text": str(part.get("text", part.get("refusal", "")))}
        if self._media is not None and kind == "input_image" and isinstance(part.get("image_url"), str):
            source = self._media.keep_image(part["image_url"])
            if source is not None:
                return {"type": "image", "source": source}
        audio = part.get("input_audio") if kind == "input_audio" else None
        if self._media is not None and isinstance(audio, Mapping):
            source = self._media.keep_audio(str(audio.get("data")), str(audio.get("format")))
            if source is not None:
                self._has_audio = True
                return {"type": "audio", "source": source}
        self._kept[f"content:{kind}"] += 1
        return {"type": "text", "text": f"[{kind}]"}

    def _add_metrics(
        self, step: dict[str, Any], about: dict[str, Any], ordered: list[tuple[StepPart, int, Item]]
    ) -> None:
        for _, index, item in ordered:
            written = write_metrics(item, self._calls.get(index))
            if written is None:
                continue
            metrics, rest = written
            record = item.get(RECORD_FIELD)
            if isinstance(record, Mapping) and record.get("reason") in _REWRITTEN:
                self._kept["rewritten_history"] += 1
            if "metrics" in step or step["source"] != "agent":  # one step, one call
                about.setdefault("tokens", []).append([index, {"fields": _carried(item)}])
                continue
            about.setdefault("tokens", []).append([index, rest])
            step["llm_call_count"] = 1
            if metrics:
                step["metrics"] = metrics


def _carried(item: Item) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name in CARRIED_FIELDS}


def _drop_tokens(item: Item) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in CARRIED_FIELDS}


def _read_reasoning(item: Item) -> str:
    parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
    return "\n\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))


def _define_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function" or "function" in tool:
        return dict(tool)
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


def digest_trajectory(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a trajectory of ours without its own digest, in any order of its keys."""
    extra = content["extra"]
    ours = {name: value for name, value in extra[OUR_DATA].items() if name != "digest"}
    whole = {**content, "extra": {**extra, OUR_DATA: ours}}
    return hashlib.sha256(dump_json(whole, option=orjson.OPT_SORT_KEYS)).hexdigest()
