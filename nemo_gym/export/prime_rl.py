"""prime-rl and verifiers.

- `form=sft`: one row per finished answer, `prompt` and `completion` as messages and `tools` as JSON text, as prime-rl's
  SFT trainer reads them.
- `form=traces`: one row per rollout, an episode of verifiers (version 1 of its traces; the file is its `traces.jsonl`).
  The messages are nodes of a graph. Each node that the policy wrote holds the tokens that its call added, prompt and
  answer, with a mask over the answer, and `grammar_mask` (true for tokens sampled under a grammar). A branch of the
  graph is a token segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import Field

from nemo_gym.export._conversation import (
    LOSSES_OF_TEXT,
    ChatTranscript,
    Message,
    TextFormat,
    TextOptions,
    read_conversation,
)
from nemo_gym.export._token_options import LOSSES_OF_TOKENS, TokenOptions
from nemo_gym.export.formats import FINISHED, SOLVED, ExportRecord
from nemo_gym.export.report import LeftOut, Loss, Report, Unsuitable
from nemo_gym.export.rollouts import Group, ScoredRollout
from nemo_gym.responses.finish import FinishKind
from nemo_gym.rows.verdict import read_end_reason
from nemo_gym.tokens.records import CallRecord
from nemo_gym.tokens.segments import Segment

TRACE_VERSION = 1
_FINISH = {FinishKind.COMPLETE: "stop", FinishKind.TOOL: "tool_calls", FinishKind.TRUNCATED: "length"}


class PrimeRlOptions(TextOptions, TokenOptions):
    form: Literal["sft", "traces"] = Field(
        "sft", description="Answers for supervised training, or episodes with tokens."
    )
    reasoning: Literal["inline", "field", "drop"] = Field(
        "field", description="Reasoning as `reasoning_content`, at the head of the text, or not at all."
    )
    arguments: Literal["string"] = Field("string", description="Arguments of tool calls are JSON text.")


class PrimeRl(TextFormat[PrimeRlOptions]):
    name = "prime_rl"
    summary = "answers for prime-rl's SFT trainer, or episodes with tokens as verifiers keeps them"
    options_type = PrimeRlOptions
    losses = (*LOSSES_OF_TEXT, *LOSSES_OF_TOKENS)
    example = (
        "ng_export +format=prime_rl +input=rollouts.jsonl +output=data/traces.jsonl +options.form=traces"
    )

    def __init__(self, options: PrimeRlOptions, report: Report) -> None:
        super().__init__(options, report)
        if options.form == "sft":
            self.outcomes, self.min_reward = FINISHED, SOLVED
            self.merges_equal_rows = self.learns_answers = True
        else:
            self.endings = (".jsonl",)

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        return (self._episodes if self.options.form == "traces" else self._answers)(group)

    def _answers(self, group: Group) -> Iterator[ExportRecord]:
        for _, chat in self.whole_chats(group):
            self.report.export(chat.losses_of_sft)
            yield {"prompt": chat.prompt, "completion": chat.completion, **chat.tools_column}

    def _episodes(self, group: Group) -> Iterator[ExportRecord]:
        for rollout, (chat, graph) in self.report.suitable(group.selected, self._read):
            # `sampled` tells the turns of the policy from others
            losses = [loss for loss in chat.losses if loss is not Loss.UNSAMPLED_TURNS]
            self.report.export(losses + self.options.find_losses(rollout))
            data = {"idx": rollout.task_number, "prompt": [*map(_message, chat.prompt)]}
            task = {"type": "NemoGymTask", "data": data | rollout.origin_column}
            trace = {
                "version": TRACE_VERSION,
                "id": f"{group.name}-{rollout.repeat}",
                "task": task,
                "agent": {"name": rollout.environment, "config": {}},
                "tools": _tools(chat),
                "nodes": graph.nodes,
                "calls": graph.calls,
                "rewards": {"reward": {"score": rollout.reward}},
                "is_completed": True,
                "ok": True,
                "stop_condition": read_end_reason(rollout.row),
            }
            yield {
                "id": trace["id"],
                "env": {"id": rollout.environment},
                "task": task,
                "group": {"id": group.name},
                "ok": True,
                "traces": [trace],
            }

    def _read(self, rollout: ScoredRollout) -> tuple[ChatTranscript, _Graph]:
        segments = rollout.read_segments()
        self.options.mask_grammar(segments)
        chat = read_conversation(rollout, self.options)
        shared = [-1] * chat.shared_turns  # which are in no segment
        turns = [*shared, *(len(chat.prompt) + place for place in sorted(chat.sampled))]
        if len(turns) != len(rollout.calls):
            raise Unsuitable(LeftOut.UNCONVERTIBLE, "a message combines several model calls")
        graph = _Graph([], [])
        for segment in segments:
            call_at = {turns[call]: rollout.calls[call] for call in segment.calls}
            graph.add_branch(chat, call_at, self._tokens(segment, call_at.values()))
        return chat, graph

    def _tokens(self, segment: Segment, calls: Iterable[CallRecord]) -> Iterator[ExportRecord]:
        """Yield the tokens that each call added to the segment: prompt and answer, masks, and the answer's logprobs."""
        start = 0
        for call in calls:
            assert call.tokens is not None
            answer = segment.loss_mask.index(1, start)
            end = answer + len(call.tokens.generated)
            is_trained = self.options.learns_grammar or not call.is_under_grammar
            yield {
                "token_ids": segment.token_ids[start:end],
                "mask": [is_trained and bool(bit) for bit in segment.loss_mask[start:end]],
                "grammar_mask": [bool(bit) for bit in segment.grammar_mask[start:end]],
                "logprobs": segment.logprobs[answer:end] if is_trained else [],
            }
            start = end


class _Graph(NamedTuple):
    """The message graph of one rollout: a path from a root to a leaf for each segment."""

    nodes: list[ExportRecord]
    calls: list[ExportRecord]

    def add_branch(
        self, chat: ChatTranscript, call_at: Mapping[int, CallRecord], tokens: Iterator[ExportRecord]
    ) -> None:
        """Add the messages of a segment. `call_at`: the calls by their messages; `tokens`: those of each call."""
        for place, message in enumerate(chat.messages[: max(call_at) + 1]):
            entry: ExportRecord = {"message": _message(message), "sampled": place in call_at}
            entry |= {"parent": len(self.nodes) - 1} if place else {"tools": _tools(chat)}
            if place in call_at:
                entry |= next(tokens)
                kind = call_at[place].finish
                reason = _FINISH.get(FinishKind(kind)) if kind else None
                self.calls.append({"node": len(self.nodes), "finish_reason": reason})
            self.nodes.append(entry)


def _message(message: Message) -> ExportRecord:
    """A message in the form of verifiers: tool calls are flat."""
    written: ExportRecord = {key: value for key, value in message.items() if key != "name"}
    if "tool_calls" in message:
        written["tool_calls"] = [{"id": call["id"], **call["function"]} for call in message["tool_calls"]]
    return written


def _tools(chat: ChatTranscript) -> list[dict[str, Any]]:
    """Tools in the form of verifiers: the function object alone."""
    return [tool["function"] for tool in chat.tools]
