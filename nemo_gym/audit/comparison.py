"""The card of an audit against a limit and against an earlier card: what a build should fail for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_gym.audit.card import Card
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import object_in


def read_baseline(file: Path) -> Mapping[str, Any]:
    """Read a card. Raises `ConfigError`."""
    try:
        card = object_in(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"baseline: {file} cannot be read: {error.strerror}", code="no_baseline") from error
    if card is None or not isinstance(card.get("classes"), list):
        raise ConfigError(
            f"baseline: {file} is not a card",
            code="no_baseline",
            remedy="Name the card.json of an earlier audit.",
        )
    return card


def list_failures(card: Card, *, fail_above: float | None, baseline: Mapping[str, Any] | None) -> list[str]:
    """Return the classes whose error rate is above the limit, or higher than it was."""
    failures = []
    for each in card.classes:
        rate, wrong = (
            each.rate.value,
            f"{each.rate.wrong} of {each.rate.probes} {each.error} at {each.kind!r}",
        )
        if fail_above is not None and rate > fail_above:
            failures.append(f"{wrong}: {rate:.2%} is above {fail_above:.2%}")
        before = _find_rate(baseline, each.kind, each.error) if baseline else None
        if before is not None and rate > before:
            failures.append(f"{wrong}: {rate:.2%}, and {before:.2%} in the baseline")
    return failures


def _find_rate(baseline: Mapping[str, Any], kind: str, error: str) -> float | None:
    for entry in baseline["classes"]:
        if entry.get("class") == kind and entry.get("error") == error:
            return float(entry["rate"])
    return None
