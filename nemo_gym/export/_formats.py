"""What a format is, and which there are.

A format is a module of this package with one class: its name, its options, and `rows`, which turns the selected
rollouts of a group into rows. Every rollout that it is given it tells the report as exported, or leaves it out for
a reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from nemo_gym.config.problems import did_you_mean
from nemo_gym.export._rollouts import Group, RolloutFiles
from nemo_gym.export._writing import ENDINGS
from nemo_gym.export.report import Loss, Report
from nemo_gym.failures import SCORED_OUTCOMES, ConfigError, Outcome

Row = dict[str, Any]


class Options(BaseModel):
    """The base of a format's options: `+options.<name>=…`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


OptionsT = TypeVar("OptionsT", bound=Options)

FINISHED = frozenset({Outcome.COMPLETED})
"""For what is learnt by heart: an answer that was cut off is no example."""


class Format(ABC, Generic[OptionsT]):
    """One way to write rollouts down, at work on one export."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """What a row is, and who reads it."""
    options_type: ClassVar[type[Options]] = Options
    losses: ClassVar[tuple[Loss, ...]]
    """What it may fail to carry of a rollout that it exports."""
    example: ClassVar[str]
    """A command line; the rollouts are in `rollouts.jsonl`."""

    def __init__(self, options: OptionsT, report: Report) -> None:
        self.options = options
        self.report = report

    @classmethod
    def defaults(cls, files: RolloutFiles) -> Mapping[str, Any]:
        """What the input tells of options that are not given."""
        return {}

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of files that the target reads."""
        return ENDINGS

    @property
    def outcomes(self) -> frozenset[Outcome]:
        """Those that are exported unless the user says otherwise."""
        return SCORED_OUTCOMES

    @property
    def merges_equal_rows(self) -> bool:
        """Whether equal rows are one unless the user says otherwise. Rows that name their rollout never are."""
        return False

    @abstractmethod
    def rows(self, group: Group) -> Iterator[Row]:
        """The rows of a group's selected rollouts."""


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
}
NAMES = tuple(_CLASSES)
"""All formats; each is the module of that name."""


def find_format(name: str) -> type[Format[Any]]:
    """The format of that name, written with dashes or underscores. Raises `ConfigError` with the nearest name."""
    wanted = name.replace("-", "_")
    if wanted not in _CLASSES:
        raise ConfigError(
            f"there is no format {name!r}",
            code="unknown_format",
            remedy=did_you_mean(wanted, NAMES) or f"The formats are: {', '.join(NAMES)}.",
        )
    found: type[Format[Any]] = getattr(import_module(f"nemo_gym.export.{wanted}"), _CLASSES[wanted])
    return found
