"""The fields of a verifier's answer that enter a row.

A verifier adds fields of its own. Of the gym's (`_ng_...`) it may set only those of the contract that report a failure:
none of its fields changes the identity, the outcome, the tokens or the timing of an attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.names import AGENT_REF_KEY, FAILURE_CLASS_KEY, RESERVED_PREFIX

FAILURE_FIELDS = frozenset(
    {
        FAILURE_CLASS_KEY,
        "_ng_failure_judge_error",
        "_ng_failure_message",
        "_ng_failure_error",
        "_ng_failure_terminal",
        "_ng_no_persist",
    }
)


def verifier_fields(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a verifier's answer without those that the gym alone sets."""
    return {name: value for name, value in answer.items() if _may_set(name, value)}


def _may_set(name: str, value: object) -> bool:
    if name in FAILURE_FIELDS:
        return value not in (None, "")
    return not name.startswith(RESERVED_PREFIX) and name != AGENT_REF_KEY
