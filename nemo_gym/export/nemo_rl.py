"""NeMo RL: scored rows with the token fields that its NeMo Gym environment reads.

NeMo RL takes the output items with `generation_token_ids` in order, and insists that `prompt_token_ids` begins with
everything before, that there are as many `generation_log_probs` as ids, and that none is NaN. What was sampled after
a rewrite of the token prefix can't be in such a sequence; it stays in the row, packed, where NeMo RL doesn't look.
"""

from __future__ import annotations

from collections.abc import Iterator

from nemo_gym.export._formats import Format, Options, Row
from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import Loss
from nemo_gym.rollouts.output.files import ENDINGS
from nemo_gym.tokens.rows import with_contract_fields


class NemoRl(Format[Options]):
    name = "nemo_rl"
    summary = "scored rows with exact token fields (NeMo RL's NeMo Gym environment)"
    losses = (Loss.MASKED_CALLS, Loss.LATER_SEGMENTS)
    example = "ng_export +format=nemo_rl +input=rollouts.jsonl +output=data/nemo_rl.jsonl"

    @property
    def endings(self) -> tuple[str, ...]:
        return ENDINGS  # columns would give every item of an output, and every tool, the fields of all

    def rows(self, group: Group) -> Iterator[Row]:
        for rollout, segments in self.report.suitable(group.selected, ScoredRollout.read_segments):
            masked = [Loss.MASKED_CALLS] if rollout.has_masked_calls else []
            self.report.export([*masked, *([Loss.LATER_SEGMENTS] if len(segments) > 1 else [])])
            yield with_contract_fields(rollout.row)
