"""`gym eval run FOLDER`, where FOLDER is a task, a folder of tasks or a `dataset.toml`.

The folders become task rows in a file beside the output, and the environment is `task_folders`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.cli.short.translation import RESULTS, GymLine
from nemo_gym.config.spelling import spell
from nemo_gym.failures import ConfigError

ENVIRONMENT = "task_folders"
_KEYS = frozenset(
    {
        *("network", "task_variables", "sandbox_provider", "packages", "build_network", "readable"),
        *("reward_key", "artifacts", "unlimited"),
    }
)
"""Options of the environment that a command line may set as `+key=value`."""
_OVERRIDE = re.compile(r"\+{1,2}(\w+)=(.*)", re.DOTALL)
_DEFAULT_AGENT, _ORACLE = "simple_agent", "oracle"
_SUFFIX = "_tasks.jsonl"


def place_task_folders(line: GymLine) -> GymLine:
    """Return the line of an environment if its target is a folder of tasks, else the line itself.

    Raises ConfigError if no task in it can run.
    """
    from nemo_gym.sources.task_folders.dataset import find_tasks, is_folder_of_tasks

    target = Path(line.names[0]).expanduser()
    if not is_folder_of_tasks(target):
        return line
    from nemo_gym.sources.task_folders.rows import build_rows, write_rows

    options, extras = _take_options(line.extras)
    dataset = find_tasks(target)
    _check_agent(line, dataset.gym.allowed_agents)
    found = build_rows(dataset, read_terms(options))
    if options.get("artifacts"):
        options["artifacts"] = str(Path(options["artifacts"]).expanduser().absolute())
    output = _find_output(line, dataset.root if dataset.settings else target)
    rows = output.with_name(output.stem + _SUFFIX)
    write_rows(rows, found, target)
    if (refusal := found.describe()) is not None:
        print(f"gym: {refusal}", file=sys.stderr)
    counted = found.count()
    notes = (
        [] if counted is None else [f"++input_notes={spell([f'{counted}: `gym dataset validate` says why'])}"]
    )
    stated = {"folder": str(dataset.root.resolve()), **options, **_replace_provider(options)}
    place = f"++{ENVIRONMENT}.resources_servers.{ENVIRONMENT}"
    added = [f"{place}.{key}={spell(value)}" for key, value in stated.items()]
    given = [] if line.has_key("input_jsonl_fpath") else [f"++input_jsonl_fpath={spell(str(rows))}"]
    named = [] if line.has_key("output_jsonl_fpath") else [f"++output_jsonl_fpath={spell(str(output))}"]
    return replace(
        line,
        names=(),
        values={**line.values, "resources_server": (ENVIRONMENT,)},
        extras=[*added, *given, *named, *notes, *extras],
    )


def _check_agent(line: GymLine, allowed: Sequence[str] | None) -> None:
    """Raise ConfigError if the dataset does not allow the agent of the line. The oracle plays no task as a policy."""
    stated = line.values.get("agent_type") or _DEFAULT_AGENT
    if allowed is not None and not {*stated.split("/")} & {*allowed, _ORACLE}:
        raise ConfigError(
            f"The dataset does not allow the agent {stated}: [gym] allowed_agents = {list(allowed)}.",
            code="agent_not_allowed",
            remedy="Choose one of them by --agent-type.",
        )


def read_terms(options: dict[str, Any]) -> Any:
    """Return the terms on which tasks run. Raises ConfigError."""
    from nemo_gym.sandbox.config import DEFAULT_METADATA
    from nemo_gym.sources.task_folders.requirements import LIMITS, ROOTLESS, Terms, check_provider

    provider = options.get("sandbox_provider", ROOTLESS)
    named = [provider] if isinstance(provider, str) else [*(provider or ())]
    name = next((each for each in named if each != DEFAULT_METADATA), ROOTLESS)
    check_provider(name)
    if options.get("network") not in (None, "none"):
        raise ConfigError("`network` can be none, for tasks without a network.", code="invalid_option")
    unlimited = options.get("unlimited") or ()
    if not isinstance(unlimited, list | tuple) or not set(unlimited) <= set(LIMITS):
        raise ConfigError(
            f"`unlimited` can be a list of {', '.join(LIMITS)}, not {unlimited!r}.", code="invalid_option"
        )
    variables = frozenset(options.get("task_variables") or ())
    return Terms(
        name,
        options.get("network"),
        variables,
        keeps_artifacts=bool(options.get("artifacts")),
        unlimited=frozenset(unlimited),
    )


def _replace_provider(options: dict[str, Any]) -> dict[str, Any]:
    """Return the provider with the removal of the environment's own, with which it would be merged."""
    from nemo_gym.config.tree import DELETE_KEY
    from nemo_gym.sources.task_folders.requirements import ROOTLESS

    provider = options.get("sandbox_provider")
    if not isinstance(provider, dict) or ROOTLESS in provider:
        return {}
    return {"sandbox_provider": {**provider, DELETE_KEY: ROOTLESS}}


def _take_options(extras: Any) -> tuple[dict[str, Any], list[str]]:
    """Split the overrides into the environment's options and the others."""
    options: dict[str, Any] = {}
    others = []
    for extra in extras:
        match = _OVERRIDE.fullmatch(extra)
        if match is None or match[1] not in _KEYS:
            others.append(extra)
            continue
        value = yaml.safe_load(match[2])
        if match[1] == "sandbox_provider" and isinstance(value, str):
            value = {value: {}}
        options[match[1]] = "none" if match[1] == "network" and value is None else value
    return options, others


def _find_output(line: GymLine, target: Path) -> Path:
    stated = line.values.get("output")
    name = target.parent.name if target.name == "dataset.toml" else target.resolve().name
    return Path(stated) if stated else RESULTS / f"{name}.jsonl"
