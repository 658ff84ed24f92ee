"""`gym eval run KIND:NAME...`, where each name is an environment of another project.

The packages of its kind are installed if they are not there. The tasks become rows in a file beside the output, and the
servers a configuration beside it, which can be kept and changed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from nemo_gym.cli.short.translation import RESULTS, GymLine
from nemo_gym.config.spelling import spell
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from nemo_gym.rows.forms import TaskRow
    from nemo_gym.sources.foreign.kinds import ForeignName

_OVERRIDE = re.compile(r"\+{1,2}(\w+)=(.*)", re.DOTALL)
_ROWS, _CONFIG = "_tasks.jsonl", "_environments.yaml"


@dataclass(slots=True)
class ForeignTerms:
    """The options of a line that are about foreign environments."""

    tasks: int | None = None
    """Tasks of each environment; those of one without an end are as many seeds."""
    seed: int = 0
    """The seed of the first task."""
    split: str | None = None
    options: dict[str, Any] | None = None
    opponent: str | None = None
    """The model server of the seats that the policy does not have."""
    max_steps: int | None = None
    venvs: str | None = None


_KEYS = frozenset(ForeignTerms.__dataclass_fields__)


def has_foreign(names: Sequence[str]) -> bool:
    """Return whether a positional argument has the form `KIND:NAME`."""
    return any(re.match(r"[a-z][a-z0-9_]*:(?!//)\S", name) for name in names)


def place_foreign(line: GymLine) -> GymLine:
    """Return the line with a configuration and rows in the place of its names. Raises `ConfigError`."""
    from nemo_gym.sources.foreign.environment import require_present
    from nemo_gym.sources.foreign.kinds import read_name
    from nemo_gym.sources.foreign.rows import write_rows

    found = [(name, read_name(name)) for name in line.names]
    others = [name for name, named in found if named is None]
    if others:
        raise ConfigError(
            f"Environments of other projects run together, and not with {others[0]!r}.",
            code="mixed_environments",
            remedy="Run them in two commands, or in a configuration of your own.",
        )
    environments = [named for _, named in found if named is not None]
    terms, extras = take_terms(line.extras)
    require_present(environments)  # before their packages are installed
    blocks: dict[str, Any] = {}
    rows: list[TaskRow] = []
    for named in environments:
        made, block = _make(named, terms, line.values.get("limit"))
        rows += made
        blocks |= block
    output = _find_output(line, environments)
    config = _write_config(output, blocks)
    given = []
    if not line.has_key("input_jsonl_fpath"):
        write_rows(output.with_name(output.stem + _ROWS), rows)
        given.append(f"++input_jsonl_fpath={spell(str(output.with_name(output.stem + _ROWS)))}")
    if not line.has_key("output_jsonl_fpath"):
        given.append(f"++output_jsonl_fpath={spell(str(output))}")
    configs = (*(line.values.get("config") or ()), str(config))
    # Each environment has its limit already.
    flags = [each for each in line.flags if not each.startswith("++limit=")]
    values = {**line.values, "config": configs}
    return replace(line, names=(), values=values, flags=flags, extras=[*given, *extras])


def take_terms(extras: Sequence[str]) -> tuple[ForeignTerms, list[str]]:
    """Split overrides into those of foreign environments and the others. Raises `ConfigError`."""
    given: dict[str, Any] = {}
    others = []
    for extra in extras:
        match = _OVERRIDE.fullmatch(extra)
        if match is not None and match[1] in _KEYS:
            given[match[1]] = yaml.safe_load(match[2])
        else:
            others.append(extra)
    wrong = [name for name in ("tasks", "seed", "max_steps") if not isinstance(given.get(name, 1), int)]
    wrong += [name for name in ("tasks", "max_steps") if isinstance(given.get(name), int) and given[name] < 1]
    if isinstance(given.get("options", {}), dict) is False:
        wrong.append("options")
    if wrong:
        raise ConfigError(
            f"{', '.join(f'+{name}={given[name]}' for name in wrong)} cannot be used.",
            code="invalid_option",
            remedy="`tasks`, `seed` and `max_steps` are whole numbers, `options` is a mapping such as {players: 2}.",
        )
    return ForeignTerms(**given), others


def _make(named: ForeignName, terms: ForeignTerms, limit: int | None) -> tuple[list[TaskRow], dict[str, Any]]:
    """Return the rows and the configuration of an environment."""
    from nemo_gym.sources.foreign.blocks import build_blocks, name_agent
    from nemo_gym.sources.foreign.environment import build_program
    from nemo_gym.sources.foreign.rows import read_listing
    from nemo_gym.sources.foreign.venvs import Venvs

    if not named.is_remote:
        Venvs(Path(terms.venvs) if terms.venvs else None, _say).build(named.kind)
    program = build_program(str(named), terms.options or {}, terms.venvs)
    most = terms.tasks or named.kind.tasks
    listing = read_listing(program, min(most, limit) if limit else most, terms.split, terms.seed)
    blocks = build_blocks(
        named,
        options=terms.options,
        opponent=terms.opponent,
        max_steps=terms.max_steps,
        venvs=terms.venvs,
    )
    return listing.build_rows(named.kind.name, name_agent(named), terms.split, terms.seed), blocks


def _write_config(output: Path, blocks: dict[str, Any]) -> Path:
    config = output.with_name(output.stem + _CONFIG)
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(yaml.safe_dump(blocks, sort_keys=False), encoding="utf-8")
    return config


def _say(line: str) -> None:
    print(f"gym: {line}", file=sys.stderr, flush=True)


def _find_output(line: GymLine, environments: Sequence[ForeignName]) -> Path:
    stated = line.values.get("output")
    name = environments[0].block if len(environments) == 1 else "foreign"
    return Path(stated) if stated else RESULTS / f"{name}.jsonl"
