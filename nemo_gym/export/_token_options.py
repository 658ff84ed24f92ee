"""The option of formats with token ids: the treatment of tokens that were sampled under a grammar.

A grammar (a forced tool call, a JSON schema) excludes tokens before one is sampled. A trainer that recomputes
log-probabilities without the grammar gets values that differ by several nats from those of the engine.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nemo_gym.export._formats import Options
from nemo_gym.export._rollouts import ScoredRollout
from nemo_gym.export.report import LeftOut, Loss, Unsuitable
from nemo_gym.tokens.segments import Segment

LOSSES_OF_TOKENS = (Loss.MASKED_CALLS, Loss.GRAMMAR_TOKENS)


class TokenOptions(Options):
    grammar_tokens: Literal["train", "context"] = Field(
        "train",
        description="Tokens sampled under a grammar (forced tool calls, JSON schemas): in the loss, or context only.",
    )

    @property
    def learns_grammar(self) -> bool:
        return self.grammar_tokens == "train"

    def read_segments(self, rollout: ScoredRollout) -> list[Segment]:
        """Return the segments to train on. Raises `Unsuitable` if there are none."""
        return self.mask_grammar(rollout.read_segments())

    def mask_grammar(self, segments: list[Segment]) -> list[Segment]:
        """Return `segments` with the loss mask of this option. Raises `Unsuitable` if nothing is trained on."""
        if self.learns_grammar:
            return segments
        trained = [kept for kept in map(Segment.mask_grammar, segments) if kept.sampled]
        if not trained:
            raise Unsuitable(LeftOut.GRAMMAR)
        return trained

    def find_losses(self, rollout: ScoredRollout) -> list[Loss]:
        """Return which of `LOSSES_OF_TOKENS` an exported rollout has."""
        is_under_grammar = any(call.is_under_grammar for call in rollout.calls)
        masked = [Loss.MASKED_CALLS] if any(call.masked for call in rollout.calls) else []
        return masked + ([Loss.GRAMMAR_TOKENS] if is_under_grammar and self.learns_grammar else [])
