"""Names of failures: registered by the gym, or with a namespace."""

from __future__ import annotations

import pytest

from nemo_gym.protocol.failure_kinds import validate_failure_kind


@pytest.mark.parametrize(
    "kind", [None, "judge_failed", "verifier_error", "agent_run_error", "usersim:policy_error"]
)
def test_registered_and_namespaced_kinds_are_accepted(kind: str | None) -> None:
    assert validate_failure_kind(kind) == kind


@pytest.mark.parametrize("kind", ["judge", "Judge_failed", "usersim:", ":error", "a b:c", ""])
def test_other_kinds_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="failure kind"):
        validate_failure_kind(kind)
