"""Mistakes with a session that its client notices itself, as errors and warnings that name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.client._group import RolloutGroup
from nemo_gym.failures import InputError


def refuse_version(version: int, current: int) -> InputError:
    return InputError(
        f"version {version} is older than the session's, {current}",
        code="version_back",
        remedy="A version only rises; pass reset=True to go back on purpose, such as to a checkpoint.",
    )


def refuse_second_loop(session: str) -> InputError:
    return InputError(
        f"another loop reads the groups of {session}",
        code="second_loop",
        remedy="A group goes to one loop: share its groups among threads, or end it before the next one begins.",
    )


def refuse_closed(session: str) -> InputError:
    return InputError(
        f"{session} was closed or left by this client",
        code="session_closed",
        remedy="Use a session within its `with` block; gym.session(attach=id) takes over one that was left open.",
    )


def refuse_foreign(group: RolloutGroup, session: str) -> InputError:
    return InputError(
        f"the group of {group.key!r} with the cursor {group.cursor} did not come from {session}",
        code="foreign_group",
        remedy="Tell each session only of the groups that it has yielded.",
    )


def describe_stall(sign: Mapping[str, Any]) -> str | None:
    """Return what a reader has to do before the session delivers another group; None if it only has to wait."""
    if sign["waits_for"] == "consumed":
        return (
            f"{sign['delivered']} groups are delivered and not consumed; call `consumed(group)` for each group that "
            "was trained on"
        )
    if sign["waits_for"] == "version":
        return (
            "the groups of its step are consumed; tell it of the next version by `update_policy`, or raise "
            "`groups_per_step` if the trainer takes more groups for a step"
        )
    if sign["waits_for"] == "resume":
        return "it is paused; read groups after the block of `update_policy`, or call `resume()`"
    return None
