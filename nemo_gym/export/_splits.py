"""The splits of an export. The prompt alone decides the split of a task.

A task is therefore in the same split in every export, on every machine, even after tasks were added. All rollouts of a
task stay together, and so do tasks with the same prompt.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Literal

from nemo_gym.export._rollouts import Group
from nemo_gym.failures import ConfigError

_NAME = re.compile(r"[\w.-]+")


class Splits:
    """Assigns groups to splits by their shares."""

    def __init__(self, shares: Mapping[str, float], by: Literal["prompt", "task"] = "prompt") -> None:
        """`by`: a task's prompt, or its number where all prompts are equal.

        Raises `ConfigError` for shares that aren't positive or don't add up to 1, and for invalid names.
        """
        if any(not share > 0 for share in shares.values()) or not math.isclose(sum(shares.values()), 1.0):
            given = ", ".join(f"{name}={share:g}" for name, share in shares.items())
            raise ConfigError(
                f"the shares of +splits must be above 0 and add up to 1, not: {given}",
                code="bad_splits",
                remedy="For example: +splits={train:0.9,validation:0.1}.",
            )
        if invalid := [name for name in shares if not _NAME.fullmatch(name)]:
            raise ConfigError(
                f"the names of +splits become parts of file names; these can't: {', '.join(map(repr, invalid))}",
                code="bad_splits",
                remedy="Use letters, digits, `_`, `-` and `.`.",
            )
        self._by = by
        self.names = sorted(shares)
        self._bounds = list(accumulate(shares[name] for name in self.names))

    def find_split(self, group: Group) -> str:
        """Return the split of a group."""
        key = group.fingerprint if self._by == "prompt" else group.task.encode()
        place = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / 2**64
        bounds = zip(self.names, self._bounds, strict=True)
        return next((name for name, bound in bounds if place < bound), self.names[-1])
