"""`<stem>_run.json`: what a run is, so that a resume of it can be refused when it has become another.

The identity is everything that changes what a rollout's result would be: the rows, the settings that shape them,
the configuration of the servers that take part, and the code. Where servers listen, how many rollouts run at once
or how often a failed one is attempted again is not part of it.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym import PARENT_DIR, __version__
from nemo_gym.config.prompts import load_prompt_config
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.plan.inspection import DatasetInspection
from nemo_gym.rollouts.plan.plan import PlanSettings

SCHEMA_VERSION = 1
_GROWING = re.compile(r"datasets\.\d+\.num_repeats")
"""Fields that may grow without touching a rollout that is done."""
_INCIDENTAL_KEYS = frozenset({"host", "port", "num_workers", "datasets"})
_INCIDENTAL_ENDINGS = ("base_url", "api_key", "token", "password", "secret", "headers")
"""Endpoints move between starts of a run; secrets stay out of files."""


class Change(NamedTuple):
    """A field of the identity that is not what it was."""

    field: str
    before: object
    after: object

    @property
    def extends(self) -> bool:
        """Whether the run only got more to do."""
        numbers = isinstance(self.before, int) and isinstance(self.after, int)
        return bool(_GROWING.fullmatch(self.field)) and numbers and self.after > self.before  # type: ignore[operator]

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.before)} -> {_shown(self.after)}"


@dataclass(slots=True)
class Manifest:
    """The identity of a run and the record of its starts."""

    identity: dict[str, Any]
    starts: list[dict[str, Any]] = field(default_factory=list)
    """One entry per time the run was started: when, with which settings, how it ended."""

    @classmethod
    def read(cls, path: Path) -> Manifest | None:
        """The manifest at `path`, or None where there is none. Raises `ConfigError` for one that cannot be used."""
        if not path.exists():
            return None
        try:
            document = orjson.loads(path.read_bytes())
            version, identity, starts = (document[key] for key in ("schema_version", "identity", "starts"))
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} is not the manifest of a run: {error}",
                code="manifest_damaged",
                remedy="Start anew with +overwrite=true; the old files are moved aside.",
            ) from error
        if version > SCHEMA_VERSION:
            raise ConfigError(
                f"{path} was written by a newer version (schema {version}, known is {SCHEMA_VERSION})",
                code="manifest_newer",
                remedy="Resume with the version of nemo_gym that started the run.",
            )
        return cls(identity, starts)

    def write(self, path: Path) -> None:
        document = {
            "schema_version": SCHEMA_VERSION,
            "identity": self.identity,
            "config_hash": digest(self.identity["config"]),
            "starts": self.starts,
        }
        write_atomically(path, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")

    def changes_to(self, identity: Mapping[str, Any]) -> list[Change]:
        """The differences between this run and one of `identity`, field by field."""
        before, after = dict(_flatten(self.identity)), dict(_flatten(identity))
        fields = [*before, *(name for name in after if name not in before)]
        return [
            Change(name, before.get(name), after.get(name))
            for name in fields
            if before.get(name) != after.get(name)
        ]


def identity_of(
    settings: PlanSettings, inspection: DatasetInspection, servers: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The identity of a run over inspected datasets. `servers`: the configuration of those that take part."""
    datasets = [
        {
            "sha256": inspected.sha256,
            "rows": inspected.rows,
            "num_repeats": inspected.file.num_repeats,
            "agent_name": inspected.file.agent_name,
            "prompt_sha256": _prompt_digest(inspected.file.prompt_config),
        }
        for inspected in inspection.files
    ]
    return {
        "datasets": datasets,
        "settings": {"limit": settings.limit, "num_repeats_add_seed": settings.add_seed},
        "responses_create_params": dict(settings.overrides),
        "config": {name: lasting(servers[name]) for name in sorted(servers)},
        "code": code_identity(),
    }


def code_identity() -> dict[str, str | None]:
    """The version and commit of the running code."""
    return {"version": __version__, "commit": _commit()}


def refuse_changes(changes: list[Change], manifest: Path) -> None:
    """Raise `ConfigError` with a readable difference, unless the run only got more to do."""
    if all(change.extends for change in changes):
        return
    listed = "\n".join(f"  {change}" for change in changes)
    raise ConfigError(
        f"this is not the run that {manifest} began:\n{listed}\n",
        code="run_changed",
        remedy="Resume with the earlier settings, accept the change by +allow_identity_change=true "
        "(it is recorded), or start anew with +overwrite=true (the old files are moved aside).",
    )


def lasting(value: Any) -> Any:
    """A configuration without what may differ from start to start: addresses, process counts, secrets."""
    if isinstance(value, Mapping):
        return {str(key): lasting(inner) for key, inner in value.items() if not _is_incidental(str(key))}
    if isinstance(value, list | tuple):
        return [lasting(inner) for inner in value]
    return value


def digest(value: object) -> str:
    """The SHA-256 of a JSON value, independent of the order of keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _is_incidental(key: str) -> bool:
    return key in _INCIDENTAL_KEYS or key.startswith("_") or key.lower().endswith(_INCIDENTAL_ENDINGS)


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and leaves; an empty object or list has none."""
    if isinstance(value, Mapping | list):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _flatten(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _shown(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."


def _prompt_digest(path: Path | None) -> str | None:
    return digest(load_prompt_config(str(path)).model_dump()) if path else None


@cache
def _commit() -> str | None:
    """The commit of the working tree this package is imported from, or None where it is not one.

    Looked up once: a later commit does not change the code that was imported.
    """
    if not (PARENT_DIR / ".git").exists():
        return None
    command = ["git", "-C", str(PARENT_DIR), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # no git, or no commit yet: the version alone stands for the code
    return done.stdout.strip()
