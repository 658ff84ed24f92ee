"""The environments of a configuration, and the task rows with which they are audited."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import parse_json
from nemo_gym.rollouts.lookback.reverify import find_environment
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rollouts.run.required_servers import find_required_servers
from nemo_gym.rows.forms import AnyRow

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig

_MODELS = "responses_api_models"


@dataclass(frozen=True, slots=True)
class AuditedEnvironment:
    """A resources server and the files with its rows."""

    server: str
    files: Sequence[Path]
    models: Collection[str]
    """The models to which the server refers, such as a judge."""


def list_environments(config: GlobalConfig) -> list[AuditedEnvironment]:
    """Return the environments to which the configuration's agents lead. Raises `ConfigError` if there is none."""
    files: dict[str, list[Path]] = {}
    for server, _, file, _ in config.datasets:
        if server.kind == "responses_api_agents":
            files.setdefault(find_environment(server.name, config.data), []).extend([file] if file else [])
    if not files:
        raise ConfigError(
            "the configuration has no environment to audit",
            code="nothing_to_audit",
            remedy="Name an environment (`gym list` shows all), or a folder of tool tasks: +folder=DIR.",
        )
    models = {server.name for server in config.servers if server.kind == _MODELS}
    return [
        AuditedEnvironment(name, found, models & set(find_required_servers([name], config.data)))
        for name, found in files.items()
    ]


def read_rows(files: Iterable[Path], limit: int | None) -> list[AnyRow]:
    """Return the rows of `files`, the first `limit` of each. Raises `ConfigError` for a file that cannot be read."""
    rows: list[AnyRow] = []
    for file in files:
        for place, line in enumerate(read_lines(locate(file))):
            if limit is not None and place >= limit:
                break
            rows.append(parse_json(line.content))
    if not rows:
        raise ConfigError(
            "there are no task rows to audit with",
            code="no_rows",
            remedy="Name a file: +input_jsonl_fpath=FILE (gym: -i), or prepare the environment's datasets.",
        )
    return rows
