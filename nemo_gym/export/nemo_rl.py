"""NeMo RL: scored rows with the token fields that its NeMo Gym environment reads.

NeMo RL takes the output items with `generation_token_ids` in order. It requires that `prompt_token_ids` starts with
all earlier tokens, that there are as many `generation_log_probs` as ids, and that none is NaN. Tokens sampled after a
rewrite of the token prefix can't be in such a sequence; they stay in the row, packed, where NeMo RL doesn't read them.
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
    endings = ENDINGS  # a Parquet column would give every output item and every tool the fields of all
    summary = "scored rows with exact token fields (NeMo RL's NeMo Gym environment)"
    losses = (Loss.MASKED_CALLS, Loss.LATER_SEGMENTS)
    example = "ng_export +format=nemo_rl +input=rollouts.jsonl +output=data/nemo_rl.jsonl"

    def rows(self, group: Group) -> Iterator[Row]:
        for rollout, segments in self.report.suitable(group.selected, ScoredRollout.read_segments):
            later = [Loss.LATER_SEGMENTS] if len(segments) > 1 else []
            self.report.export(rollout.losses_of_tokens + later)
            yield with_contract_fields(rollout.row)
