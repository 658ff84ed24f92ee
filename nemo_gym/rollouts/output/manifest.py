"""`<stem>_run.json`: the identity of a run. A resume with another identity is refused.

The identity is everything that influences the result of a rollout: the rows, their settings, the configuration of the
servers that take part, the code (the gym's version, its rooms in a checkout, and the files of the user's servers) and
what the engines tell of themselves. Addresses of servers and engines, concurrency and retries are not part of it.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from nemo_gym import PARENT_DIR, __version__
from nemo_gym.config.secrets import hide_secrets, is_secret_name
from nemo_gym.failures import ConfigError
from nemo_gym.inputs.prompts import load_prompt_config
from nemo_gym.names import CODE_KEY
from nemo_gym.paths import find_file
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.plan.inspection import DatasetInspection
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rows.keys import SCORED_BY_KEY

SCHEMA_VERSION = 2
_PLAIN_VERSION = 1
"""The version of a manifest without numbers of tasks, which earlier versions of the gym read too."""
_GROWING = re.compile(r"datasets\.\d+\.num_repeats|settings\.num_repeats\..+")
"""Fields that may grow without affecting finished rollouts."""
_TASKS = re.compile(r"datasets\.\d+(\.(sha256|rows))?|settings\.limit")
"""Fields of which tasks a run has. A dataset that a run has no more, or has in addition, is one field."""
_CODE, _FILE, _ENGINE = "code.", "code.files.", "engines."
_INCIDENTAL_KEYS = frozenset({"host", "port", "num_workers"})
_INCIDENTAL_ENDINGS = ("base_url", "headers")
"""Endpoints change between starts of a run; secrets are not written to files."""
_OPTIONS_DEPTH = 2
"""The depth of a server's options in its block, below its kind and its implementation."""
_CODE_CHARACTERS = 12


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

    @property
    def is_of_code(self) -> bool:
        """Return whether the code has changed."""
        return self.field.startswith(_CODE)

    @property
    def is_of_engine(self) -> bool:
        """Return whether another engine answers."""
        return self.field.startswith(_ENGINE)

    @property
    def is_of_maker(self) -> bool:
        """Return whether code or an engine has changed, so that only the new rows differ."""
        return self.is_of_code or self.is_of_engine

    @property
    def is_of_tasks(self) -> bool:
        """Return whether tasks were added, removed or reordered."""
        return bool(_TASKS.fullmatch(self.field))

    @property
    def is_of_part(self) -> bool:
        """Return whether the shards of one run may differ in the field: in tasks, their repeats, code or engines."""
        return self.is_of_maker or self.is_of_tasks or bool(_GROWING.fullmatch(self.field))

    def __str__(self) -> str:
        if self.field.startswith(_FILE):
            verb = (
                "was added" if self.before is None else "was removed" if self.after is None else "has changed"
            )
            return f"{self.field.removeprefix(_FILE)} {verb}"
        return f"{self.field}: {_show(self.before)} -> {_show(self.after)}"


@dataclass(frozen=True, slots=True)
class AllowedChanges:
    """The changes of its identity with which a run is resumed. More repeats need no permission."""

    everything: bool = False
    tasks: bool = False
    """Tasks may be added, removed and reordered."""
    code: bool = False
    """Code may change; the rows that it scores are marked."""
    engine: bool = False
    """Engines may change; the rows that they answer are marked."""

    def includes(self, change: Change) -> bool:
        """Return whether a change is allowed."""
        allowed = (
            (self.tasks and change.is_of_tasks)
            or (self.code and change.is_of_code)
            or (self.engine and change.is_of_engine)
        )
        return self.everything or allowed or change.extends


@dataclass(slots=True)
class Manifest:
    """The identity of a run and the record of its starts."""

    identity: dict[str, Any]
    starts: list[dict[str, Any]] = field(default_factory=list)
    """One entry per start of the run: its time, settings and end."""
    tasks: list[list[list[int]]] | None = None
    """Per dataset, the indices of its tasks as pairs of a first index and a count; None if they count from 0."""
    codes: list[dict[str, Any]] = field(default_factory=list)
    """The codes of a run whose code or engines have changed: `digest`, `since` (the start), `code` and `engines`.

    Rows without a mark (`SCORED_BY_KEY`) were made by the first, other rows by the one whose digest they have.
    """

    @classmethod
    def read(cls, path: Path) -> Manifest | None:
        """Return the manifest at `path`, or None. Raises `ConfigError` for an unusable one."""
        if not path.exists():
            return None
        try:
            if not path.is_file():  # a named pipe would block
                raise TypeError("it is no regular file")
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
        return cls(identity, starts, document.get("tasks"), document.get("codes") or [])

    def write(self, path: Path) -> None:
        document = {
            "schema_version": _PLAIN_VERSION if self.tasks is None else SCHEMA_VERSION,
            "identity": self.identity,
            "config_hash": digest(self.identity["config"]),
            **({"tasks": self.tasks} if self.tasks is not None else {}),
            **({"codes": self.codes} if self.codes else {}),
            "starts": self.starts,
        }
        write_atomically(path, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")

    def changes_to(self, identity: Mapping[str, Any]) -> list[Change]:
        """Return the fields in which this run and `identity` differ.

        The files of the code are compared only if both have them: an older gym does not tell its files. An added file
        counts if it is Python: servers write others into their folders, and an older gym tells no rooms of itself. A
        fact of an engine is compared only if both engines tell it.
        """
        shared = min(len(each.get("datasets", ())) for each in (self.identity, identity))
        before, after = (dict(_fields(each, shared)) for each in (self.identity, identity))
        has_files = all("files" in each.get("code", {}) for each in (self.identity, identity))
        fields = [*before, *(name for name in after if name not in before)]
        return [
            Change(name, before.get(name), after.get(name))
            for name in fields
            if before.get(name) != after.get(name)
            and (not name.startswith(_FILE) or (has_files and (name in before or name.endswith(".py"))))
            and (not name.startswith(_ENGINE) or (name in before and name in after))
        ]

    def begin(
        self, identity: dict[str, Any], start: Mapping[str, Any], changes: Sequence[Change]
    ) -> str | None:
        """Add a start of the run, with the `changes` since the last one.

        Return the mark of the rows that it adds: the digest of their code, or None for the first code of the run. Facts
        that an engine does not tell this time are kept.
        """
        engines = (
            _merge_facts(self.identity, identity) if start["finished_before"] else identity.get("engines")
        )
        identity = {**identity, "engines": engines} if engines else identity
        if not start["finished_before"]:
            self.codes, mark = [], None
        elif any(change.is_of_maker for change in changes):
            mark = self._add_code(identity, start.get("started_at"))
        else:
            mark = self.starts[-1].get("code") if self.starts else None
        entry = {**start, "changes": [list(change) for change in changes]}
        self.starts.append(entry | ({"code": mark} if mark else {}))
        self.identity = identity
        return mark

    def describe_codes(self, name: str) -> Iterator[str]:
        """Yield a note for the user of the manifest `name` if the code or an engine of the run has changed."""
        if self.codes:
            has_engines = len({digest(each.get("engines")) for each in self.codes}) > 1
            kind = "versions of the code or its engines" if has_engines else "versions of the code"
            yield (
                f"the rows were scored by {len(self.codes)} {kind}, which `codes` in {name} lists: "
                f"rows without `{SCORED_BY_KEY}` by the first"
            )

    def _add_code(self, identity: Mapping[str, Any], since: object) -> str | None:
        if not self.codes:
            self.codes.append(_describe_code(self.identity, self.starts[0].get("started_at")))
        added = _describe_code(identity, since)
        if all(each["digest"] != added["digest"] for each in self.codes):
            self.codes.append(added)
        return None if self.codes[0]["digest"] == added["digest"] else str(added["digest"])


def _describe_code(identity: Mapping[str, Any], since: object) -> dict[str, Any]:
    return {"digest": digest_code(identity), "since": since, **_parts_of_maker(identity)}


def digest_code(identity: Mapping[str, Any]) -> str:
    """Return the digest by which a run's files name the code and the engines of an identity."""
    parts = _parts_of_maker(identity)
    return digest(parts if "engines" in parts else parts.get("code", {}))[:_CODE_CHARACTERS]


def _parts_of_maker(identity: Mapping[str, Any]) -> dict[str, Any]:
    return {name: identity[name] for name in ("code", "engines") if identity.get(name)}


def _merge_facts(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of the engines of an identity, with those that only the `earlier` one has."""
    before, after = (each.get("engines") or {} for each in (earlier, later))
    return {name: {**before.get(name, {}), **after.get(name, {})} for name in sorted({*before, *after})}


def build_identity(
    settings: PlanSettings,
    inspection: DatasetInspection,
    servers: Mapping[str, Mapping[str, Any]],
    gym: Mapping[str, Any] = MappingProxyType({}),
    engines: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the identity of a run.

    `servers`: the configuration of those that take part; `gym`: the whole one; `engines`: the facts of the engines
    behind model servers, as far as they tell them.
    """
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
        "config": {name: keep_lasting(servers[name]) for name in sorted(servers)},
        "code": code_identity(gym, servers, [inspected.file.path for inspected in inspection.files]),
        **({"engines": {name: dict(engines[name]) for name in sorted(engines)}} if engines else {}),
    }


def code_identity(
    gym: Mapping[str, Any], servers: Iterable[str], datasets: Iterable[Path] = ()
) -> dict[str, Any]:
    """Return the version and commit of the gym, and the digests of the files of `servers` and of its rooms by path.

    The files are those that the configuration of the running `gym` has, without the `datasets` of the run. A gym of an
    older version has none, and only a gym in a checkout has rooms.
    """
    told = gym.get(CODE_KEY)
    if not isinstance(told, Mapping):
        return {"version": __version__, "commit": _commit()}
    files: dict[str, str] = {}
    part = frozenset(servers)
    inputs = [place.resolve().as_posix() for path in datasets if (place := find_file(path)) is not None]
    for path, hashed in (pair for each in told["servers"] if each["name"] in part for pair in each["files"]):
        if any(place == path or place.endswith(f"/{path}") for place in inputs):
            continue
        other = files.setdefault(path, hashed)
        files[path] = hashed if other == hashed else digest([other, hashed])  # of two roots with one name
    files |= told.get("library", {}).get("rooms", ())
    return {"version": told["version"], "commit": _commit(), "files": dict(sorted(files.items()))}


def refuse_changes(
    changes: Sequence[Change], manifest: Path, allowed: AllowedChanges = AllowedChanges()
) -> None:
    """Raise `ConfigError` with the differences, unless they are `allowed`."""
    refused = [change for change in changes if not allowed.includes(change)]
    if not refused:
        return
    listed = "\n".join(f"  {change}" for change in refused)
    raise ConfigError(
        f"the run differs from {manifest}:\n{listed}\n",
        code="run_changed",
        remedy="\n".join(_ways_on(refused, manifest)),
    )


def _ways_on(refused: Sequence[Change], manifest: Path) -> Iterator[str]:
    """Yield what a user can do about changes."""
    rows = manifest.with_name(f"{manifest.name.removesuffix('_run.json')}.jsonl")
    if any(change.is_of_code for change in refused):
        yield (
            "The code that scored the earlier rows has changed. Score them with the new code: gym eval reverify NAME "
            f"--rollouts {rows} -o NEW.jsonl (environments that need no session); or keep both and mark the new rows "
            "with --mark-new-code (+mark_new_code=true)."
        )
    if any(change.is_of_engine for change in refused):
        yield (
            "Another engine answers for the model than did for the earlier rows. Resume with the earlier one; or keep "
            "both and mark the new rows with --mark-new-engine (+mark_new_engine=true)."
        )
    if any(change.is_of_tasks for change in refused):
        yield (
            "The tasks have changed. --add-tasks (+add_tasks=true) finds the tasks of earlier rows by their content "
            "and attempts the new ones; rows of tasks that are gone are set aside."
        )
    if not all(change.is_of_maker or change.is_of_tasks for change in refused):
        yield (
            "Resume with the earlier settings, or accept the change with +allow_identity_change=true (it is recorded)."
        )
    yield "Or start again with --overwrite (+overwrite=true); the old files are moved aside."


def describe_repository(repository: Mapping[str, Any]) -> str:
    """Return the commit of a start as a user reads it."""
    return f"{str(repository.get('commit'))[:12]}{', with changes' if repository.get('dirty') else ''}"


def keep_lasting(server: Mapping[str, Any]) -> Any:
    """Return a server's configuration without addresses, process counts, datasets and secrets.

    These may differ between starts. Datasets are a part of the identity by themselves.
    """
    return _lasting(hide_secrets(server), 0)


def _lasting(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): _lasting(inner, depth + 1)
            for key, inner in value.items()
            if not _is_incidental(str(key), inner) and not (key == "datasets" and depth == _OPTIONS_DEPTH)
        }
    if isinstance(value, list | tuple):
        return [_lasting(inner, depth + 1) for inner in value]
    return value


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value, independent of key order."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _is_incidental(key: str, value: object) -> bool:
    is_address = key in _INCIDENTAL_KEYS or key.lower().endswith(_INCIDENTAL_ENDINGS)
    return is_address or key.startswith("_") or (is_secret_name(key) and not isinstance(value, Mapping))


def _fields(identity: Mapping[str, Any], datasets: int) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an identity; each dataset after the first `datasets` is one."""
    for index, dataset in enumerate(identity.get("datasets", ())):
        yield from (
            _flatten(dataset, f"datasets.{index}") if index < datasets else [(f"datasets.{index}", dataset)]
        )
    files = identity.get("code", {}).get("files", {})
    code = {key: value for key, value in identity.get("code", {}).items() if key != "files"}
    rest = {key: value for key, value in identity.items() if key not in ("datasets", "code", "engines")}
    yield from _flatten({**rest, "code": code})
    yield from ((f"{_FILE}{path}", hashed) for path, hashed in files.items())
    for server, facts in (identity.get("engines") or {}).items():
        yield from ((f"{_ENGINE}{server}.{fact}", value) for fact, value in facts.items())


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and leaves; an empty object or list has none."""
    if isinstance(value, Mapping | list):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _flatten(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _show(value: object) -> str:
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
