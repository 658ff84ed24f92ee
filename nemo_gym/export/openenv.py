"""OpenEnv: a `TrainingTrace` (version 1) per rollout, with the tokens of each model call.

A turn is a call: `prompt_token_ids`, `completion_token_ids` and their `per_token_logps`. `loss_mask` covers prompt and
completion; it is 0 for a call that is not trained, such as those that a fork shares with its parent. OpenEnv's traces
have no reward: `metadata` of a turn has it, with the task and the repeat;
`grammar` is true for a completion that was sampled under a grammar.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nemo_gym.export._token_options import LOSSES_OF_TOKENS, TokenOptions
from nemo_gym.export.formats import ExportRecord, Format
from nemo_gym.export.rollouts import Group, ScoredRollout
from nemo_gym.rows.calls import WholeCall, read_whole_calls

TRACE_VERSION = 1


class OpenEnv(Format[TokenOptions]):
    name = "openenv"
    endings = (".jsonl",)
    summary = "the tokens of every model call, as OpenEnv's training traces"
    options_type = TokenOptions
    losses = LOSSES_OF_TOKENS
    example = "ng_export +format=openenv +input=rollouts.jsonl +output=data/traces.jsonl"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        for rollout, _ in self.report.suitable(group.selected, self.options.read_segments):
            self.report.export(self.options.find_losses(rollout))
            about = {"group": group.name, "repeat": rollout.repeat, "reward": rollout.reward}
            calls = read_whole_calls(rollout.row)
            turns = [self._build_turn(number, call, rollout, about) for number, call in enumerate(calls)]
            yield {"schema_version": TRACE_VERSION, "turns": turns}

    def _build_turn(
        self, number: int, call: WholeCall, rollout: ScoredRollout, about: dict[str, Any]
    ) -> ExportRecord:
        record = call.record
        assert record.tokens is not None  # a whole call has them
        is_trained = record.untrained is None and (self.options.learns_grammar or not record.is_under_grammar)
        generated = record.tokens.generated
        return {
            "node_id": f"{about['group']}-{rollout.repeat}-{number}",
            "prompt_token_ids": call.prompt,
            "completion_token_ids": generated,
            "per_token_logps": record.tokens.logprobs,
            "loss_mask": [0] * len(call.prompt) + [int(is_trained)] * len(generated),
            "metadata": {
                **about,
                "environment": rollout.environment,
                "grammar": record.is_under_grammar,
                **rollout.origin_column,
            },
        }
