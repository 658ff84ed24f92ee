"""The base class of export formats, and the list of formats.

A format is a module of this package with one class: its name, its options, and `rows`, which turns the selected
rollouts of a group into rows. It reports every rollout that it gets as exported, or leaves it out for a reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from nemo_gym.config.problems import did_you_mean
from nemo_gym.export._writing import ENDINGS
from nemo_gym.export.report import Loss, Report
from nemo_gym.export.rollouts import Group, RolloutFiles
from nemo_gym.failures import SCORED_OUTCOMES, ConfigError, Outcome

ExportRecord: TypeAlias = dict[str, Any]
"""A line of an export, in the format of its trainer."""


class Options(BaseModel, extra="forbid", frozen=True):
    """The base of a format's options: `+options.<name>=…`."""


OptionsT = TypeVar("OptionsT", bound=Options)

FINISHED = frozenset({Outcome.COMPLETED})
"""The outcomes for supervised examples: a truncated answer is not one."""
SOLVED = 1.0
"""The lowest reward of supervised examples: a trainer would imitate a wrong answer."""


class Format(ABC, Generic[OptionsT]):
    """An export format, instantiated for one export."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """The content of a row and the trainer that reads it."""
    options_type: ClassVar[type[Options]] = Options
    losses: ClassVar[tuple[Loss, ...]]
    """The losses that exported rollouts may have."""
    example: ClassVar[str]
    """A command line; the rollouts are in `rollouts.jsonl`."""
    endings: tuple[str, ...] = ENDINGS
    """The endings of files that the target reads."""
    header: ClassVar[Mapping[str, Any]] = {}
    """The members beside the rows, of a format that is one document."""
    member: ClassVar[str] = "rows"
    """The member of its rows."""
    outcomes: frozenset[Outcome] = SCORED_OUTCOMES
    """The outcomes that are exported by default."""
    min_reward: float | None = None
    """The lowest reward that is exported by default; None for any."""
    merges_equal_rows: bool = False
    """Write duplicate rows once by default. Formats whose rows name their rollout have none."""

    learns_answers: bool = False
    """Leave out rollouts without an answer, or whose answer broke its verifier: the reader trains on judged texts."""
    joins_inputs: bool = False
    """Whether the rollouts of a task that several inputs have are one group."""
    joins_agents: bool = False
    """Whether the rollouts of a task by several agents are one group."""

    for_training: bool = True
    """False for an exchange of rollouts, which has those that no trainer may see, too."""
    output: Path
    """The file to write, beside which a format may have folders."""

    def __init__(self, options: OptionsT, report: Report) -> None:
        self.options = options
        self.report = report

    @classmethod
    def defaults(cls, files: RolloutFiles) -> Mapping[str, Any]:
        """Return the options whose default depends on the input."""
        return {}

    @abstractmethod
    def rows(self, group: Group) -> Iterator[ExportRecord]:
        """Yield the rows of a group's selected rollouts."""


_CLASSES: Mapping[str, str] = {
    "sft": "Sft",
    "dpo": "Dpo",
    "kto": "Kto",
    "grpo": "Grpo",
    "nemo_rl": "NemoRl",
    "verl": "Verl",
    "agent_tunix": "AgentTunix",
    "prime_rl": "PrimeRl",
    "sharegpt": "ShareGpt",
    "openai": "OpenAi",
    "openenv": "OpenEnv",
    "atif": "Atif",
    "inspect": "Inspect",
}
NAMES = tuple(_CLASSES)
"""All formats; each is the module of that name."""


def find_format(name: str) -> type[Format[Any]]:
    """Return the format of that name, with dashes or underscores. Raises `ConfigError` with the nearest name."""
    wanted = name.replace("-", "_")
    if wanted == "trl":
        raise ConfigError(
            "TRL has a format for each of its trainers",
            code="unknown_format",
            remedy="Write sft, dpo, kto or grpo.",
        )
    if wanted not in _CLASSES:
        raise ConfigError(
            f"there is no format {name!r}",
            code="unknown_format",
            remedy=did_you_mean(wanted, NAMES) or f"The formats are: {', '.join(NAMES)}.",
        )
    found: type[Format[Any]] = getattr(import_module(f"nemo_gym.export.{wanted}"), _CLASSES[wanted])
    return found
