"""All kinds of instructions, by id."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from resources_servers.instruction_following.instructions import (  # noqa: F401  # importing a family registers its kinds
    benchmark_tasks,
    fixed_answers,
    formats,
    keywords,
    languages,
    lengths,
    letters,
    positions,
    ratios,
)
from resources_servers.instruction_following.instructions.registry import KINDS, Kind

ALL_KINDS: Mapping[str, Kind] = MappingProxyType(KINDS)
