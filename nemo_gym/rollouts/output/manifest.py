"""`<stem>_run.json`: the identity of a run. A resume with another identity is refused.

The identity is everything that influences the result of a rollout: the rows, their settings, the configuration of the
servers that take part, and the code. Addresses of servers, concurrency and retries are not part of it.
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
_GROWING = re.compile(r"datasets\.\d+\.num_repeats|settings\.num_repeats\..+")
"""Fields that may grow without affecting finished rollouts."""
_INCIDENTAL_KEYS = frozenset({"host", "port", "num_workers", "datasets"})
_INCIDENTAL_ENDINGS = ("base_url", "api_key", "token", "password", "secret", "headers")
"""Endpoints change between starts of a run; secrets are not written to files."""


class Change(NamedTuple):
    """A field of the identity that has changed."""

    field: str
    before: object
    after: object

    @property
    def extends(self) -> bool:
        """Return whether the change only adds rollouts."""
        numbers = isinstance(self.before, int) and isinstance(self.after, int)
        return bool(_GROWING.fullmatch(self.field)) and numbers and self.after > self.before  # type: ignore[operator]

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.before)} -> {_shown(self.after)}"


@dataclass(slots=True)
class Manifest:
    """The identity of a run and the record of its starts."""

    identity: dict[str, Any]
    starts: list[dict[str, Any]] = field(default_factory=list)
    """One entry per start of the run: its time, settings and end."""

    @classmethod
    def read(cls, path: Path) -> Manifest | None:
        """Return the manifest at `path`, or None. Raises `ConfigError` for an unusable one."""
        if not path.exists():
            return None
        try:
            document = orjson.loads(path.read_bytes())
            version, identity, starts = (document[key] for key in ("schema_version", "identity", "starts"))
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} is not the manifest of a run: {error}",
                code="manifest_damaged",
                remedy="Start again with +overwrite=true; the old files are moved aside.",
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
        """Return the fields in which this run and `identity` differ."""
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
    """Return the identity of a run. `servers`: the configuration of the servers that take part."""
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
        "settings": {
            "limit": settings.limit,
            "num_repeats_add_seed": settings.add_seed,
            "num_repeats": settings.routing.num_repeats,
            "agent_map": settings.routing.agent_map,
            "fan_out": settings.routing.fan_out,
            "skills": {"hash": settings.skills_ref["hash"]} if settings.skills_ref else {},
        },
        "responses_create_params": dict(settings.overrides),
        "config": {name: lasting(servers[name]) for name in sorted(servers)},
        "code": code_identity(),
    }


def code_identity() -> dict[str, str | None]:
    """Return the version and commit of the running code."""
    return {"version": __version__, "commit": _commit()}


def refuse_changes(changes: list[Change], manifest: Path) -> None:
    """Raise `ConfigError` with the differences, unless they only add rollouts."""
    if all(change.extends for change in changes):
        return
    listed = "\n".join(f"  {change}" for change in changes)
    raise ConfigError(
        f"the run differs from {manifest}:\n{listed}\n",
        code="run_changed",
        remedy="Resume with the earlier settings, accept the change with +allow_identity_change=true "
        "(it is recorded), or start again with +overwrite=true (the old files are moved aside).",
    )


def lasting(value: Any) -> Any:
    """Return a configuration without addresses, process counts and secrets, which may differ between starts."""
    if isinstance(value, Mapping):
        return {str(key): lasting(inner) for key, inner in value.items() if not _is_incidental(str(key))}
    if isinstance(value, list | tuple):
        return [lasting(inner) for inner in value]
    return value


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value, independent of key order."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _is_incidental(key: str) -> bool:
    return key in _INCIDENTAL_KEYS or key.startswith("_") or key.lower().endswith(_INCIDENTAL_ENDINGS)


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and leaves; an empty object or list has none."""
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
    """Return the commit of the working tree of this package, or None if there is none.

    Cached, because a later commit does not change the imported code.
    """
    if not (PARENT_DIR / ".git").exists():
        return None
    command = ["git", "-C", str(PARENT_DIR), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # no git or no commit yet: the version alone identifies the code
    return done.stdout.strip()
