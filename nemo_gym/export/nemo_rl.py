"""NeMo RL: scored rows with the token fields that its NeMo Gym environment reads.

NeMo RL takes the output items with `generation_token_ids` in order. It requires that `prompt_token_ids` starts with
all earlier tokens, that there are as many `generation_log_probs` as ids, and that none is NaN. Tokens sampled after a
rewrite of the token prefix can't be in such a sequence; they stay in the row, packed, where NeMo RL doesn't read them.
Items sampled under a grammar are marked by `_ng_tokens.sampling.grammar`.
"""

from __future__ import annotations

from collections.abc import Iterator

from nemo_gym.export._formats import ExportRecord, Format
from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export._token_options import LOSSES_OF_TOKENS, TokenOptions
from nemo_gym.export.report import Loss
from nemo_gym.rollouts.output.files import ENDINGS
from nemo_gym.rows.calls import fill_contract_fields
from nemo_gym.tokens.segments import Segment


class NemoRl(Format[TokenOptions]):
    name = "nemo_rl"
    endings = ENDINGS  # a Parquet column would give every output item and every tool the fields of all
    summary = "scored rows with exact token fields (NeMo RL's NeMo Gym environment)"
    options_type = TokenOptions
    losses = (*LOSSES_OF_TOKENS, Loss.LATER_SEGMENTS)
    example = "ng_export +format=nemo_rl +input=rollouts.jsonl +output=data/nemo_rl.jsonl"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        for rollout, segments in self.report.suitable(group.selected, self._read):
            later = [Loss.LATER_SEGMENTS] if len(segments) > 1 else []
            self.report.export(self.options.find_losses(rollout) + later)
            yield fill_contract_fields(rollout.row, learns_grammar=self.options.learns_grammar)

    def _read(self, rollout: ScoredRollout) -> list[Segment]:
        segments = rollout.read_segments()
        self.options.mask_grammar(segments[:1])
        return segments
