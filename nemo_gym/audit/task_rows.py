"""The environments of a configuration, and the task rows with which they are audited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym.audit.answer_types import find_answer
from nemo_gym.audit.dataset_facts import DatasetFacts
from nemo_gym.config.problems import ConfigErrors, Location, Problem
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.reverify import find_environment
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rollouts.run.required_servers import find_required_servers
from nemo_gym.rows.forms import AnyRow

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig

_MODELS = "responses_api_models"


@dataclass(frozen=True, slots=True)
class AuditedEnvironment:
    """A resources server and the files with its rows."""

    server: str
    agent: str
    """The first agent that leads to it."""
    files: Sequence[Path]
    models: Collection[str]
    """The models to which the server refers, such as a judge."""


def list_environments(config: GlobalConfig) -> list[AuditedEnvironment]:
    """Return the environments to which the configuration's agents lead. Raises `ConfigError` if there is none."""
    files: dict[str, list[Path]] = {}
    agents: dict[str, str] = {}
    for server, _, file, _ in config.datasets:
        if server.kind == "responses_api_agents":
            environment = find_environment(server.name, config.data)
            agents.setdefault(environment, server.name)
            files.setdefault(environment, []).extend([file] if file else [])
    if not files:
        raise ConfigError(
            "the configuration has no environment to audit",
            code="nothing_to_audit",
            remedy="Name an environment (`gym list` shows all), or a folder of tool tasks: +folder=DIR.",
        )
    models = {server.name for server in config.servers if server.kind == _MODELS}
    return [
        AuditedEnvironment(
            name, agents[name], found, models & set(find_required_servers([name], config.data))
        )
        for name, found in files.items()
    ]


def read_rows(files: Iterable[Path], limit: int | None, facts: DatasetFacts | None = None) -> list[AnyRow]:
    """Return the rows of `files`, the first `limit` of each, and add what they share to `facts`.

    Raises `ConfigError` for a file that cannot be read, and for all rows whose declared type of answer is refused.
    """
    rows: list[AnyRow] = []
    refused: defaultdict[tuple[str, str | None], list[Location]] = defaultdict(list)
    for file in files:
        for place, line in enumerate(read_lines(locate(file))):
            if limit is not None and place >= limit:
                break
            rows.append(read_object(line.content, f"{file}:{line.number}", code="malformed_rows"))
            try:
                find_answer(rows[-1])
                if facts is not None:
                    facts.add(str(file), line.number, rows[-1])
            except ConfigError as error:
                fault = (error.failure.message, error.failure.remedy)
                refused[fault].append(Location(str(file), line.number))
    if refused:
        raise ConfigErrors([_describe(*fault, places) for fault, places in refused.items()])
    if not rows:
        raise ConfigError(
            "there are no task rows to audit with",
            code="no_rows",
            remedy="Name a file: +input_jsonl_fpath=FILE (gym: -i), or prepare the environment's datasets.",
        )
    return rows


def _describe(message: str, remedy: str | None, places: Sequence[Location]) -> Problem:
    more = f" (and so in {len(places) - 1:,} more rows)" if len(places) > 1 else ""
    return Problem(places[0], f"{message}{more}", remedy)
