"""The share of masked calls of a run, and its limit.

A few answers with a NaN are harmless. Many of them mean a wrong engine or setting; training on the remaining calls
would use a biased sample, or none, without an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_output
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.tokens.records import RECORD_FIELD

_REMEDIES: Mapping[str, str] = {
    MaskReason.RAW_LOGPROBS: "Start vLLM with --logprobs-mode processed_logprobs, or sample with temperature 1 and "
    "without penalties, top_p, top_k and grammars.",
    MaskReason.MISSING_TOKEN_IDS: "Use an engine that knows return_token_ids (vLLM 0.10.2 or later).",
    MaskReason.MISSING_BASE: "The agent hides model calls that its conversation goes on from: set token_fields to "
    "contract on the model server.",
}


class MaskCounters:
    """Counts the calls of rows without rebuilding ids."""

    def __init__(self) -> None:
        self.calls = 0
        """The number of model calls whose tokens were requested."""
        self.masked: Counter[str] = Counter()
        """The number of masked calls by reason."""

    def add(self, row: AnyRow) -> None:
        """Count the calls of a scored row."""
        for item in read_output(row):
            record = item.get(RECORD_FIELD)
            if record is None or not isinstance(record, Mapping):
                self.calls += bool(item.get("generation_token_ids"))
                continue
            masked = record.get("masked")
            self.calls += bool(masked or record.get("sequence"))
            if masked:
                self.masked[str(masked)] += 1

    @property
    def fraction(self) -> float:
        """The share of calls that are masked; 0 without calls."""
        return self.masked.total() / self.calls if self.calls else 0.0

    def excess(self, most: float) -> str | None:
        """Return an error message if the share of masked calls is above `most`, or None."""
        if self.fraction <= most:
            return None
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.masked.most_common())
        return (
            f"{self.masked.total():,} of {self.calls:,} model calls ({self.fraction:.1%}) have no tokens to train on, "
            f"more than +max_masked_fraction={most:g} allows: {reasons}"
        )

    @property
    def remedy(self) -> str:
        """The remedy for the most frequent reason."""
        reason = self.masked.most_common(1)[0][0] if self.masked else ""
        return _REMEDIES.get(
            reason, "Look at the engine's log; raise +max_masked_fraction to keep such a run."
        )
