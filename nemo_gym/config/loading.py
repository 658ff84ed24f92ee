"""`load` turns a command line into a validated configuration, or raises all of its problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, TypeVar

from pydantic import BaseModel

from nemo_gym.config._compose import INITIAL, ConfigSources, compose
from nemo_gym.config._directives import Directives
from nemo_gym.config._interpolation import report_missing, resolve
from nemo_gym.config._overrides import parse_overrides
from nemo_gym.config._provenance import Explanation, Provenance
from nemo_gym.config._references import check_references
from nemo_gym.config._top_level import (
    check_sources,
    fill_defaults,
    give_agents_their_defaults,
    report_unknown_keys,
)
from nemo_gym.config._yaml_files import read_yaml
from nemo_gym.config.addresses import check_addresses
from nemo_gym.config.allowed import check_allowed
from nemo_gym.config.datasets import ServerDataset, read_datasets
from nemo_gym.config.keys import GlobalKeys
from nemo_gym.config.options import Inspect, check_aliases, check_options
from nemo_gym.config.problems import Location, Problems, did_you_mean
from nemo_gym.config.pydantic_problems import list_keys, validate
from nemo_gym.config.servers import ServerInstance, drop_placeholders, find_servers
from nemo_gym.config.tree import DictTree, build_tree, dump_plain, find_at, split_path
from nemo_gym.json_objects import member
from nemo_gym.names import TLS_KEY
from nemo_gym.paths import display_path

ENV_FILE = Path("env.yaml")

KeysT = TypeVar("KeysT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class GlobalConfig:
    """A complete and valid configuration."""

    data: dict[str, Any] = field(repr=False)
    """The resolved servers and global keys as plain dicts, lists and scalars. Servers have `host` and `port` only if
    these were given."""
    servers: tuple[ServerInstance, ...]
    datasets: tuple[ServerDataset, ...]
    """The datasets that servers declare."""
    warnings: list[str]
    """Messages for the user that require no change."""
    command_keys: BaseModel | None = field(repr=False)
    """The keys of the command for which the configuration was loaded."""
    provenance: Provenance = field(repr=False)
    code_runners: tuple[str, ...] = ()
    """The servers that run code of models. Empty without an `inspect`."""

    def explain(self, path: str) -> Explanation:
        """Return the origin of the value at the dotted `path`. Raises `KeyError` if there is none."""
        return self.provenance.explain(split_path(path, self.provenance.root))

    def is_given(self, path: str) -> bool:
        """Return whether the value at the dotted `path` was set, rather than being a default."""
        root = self.provenance.root
        return find_at(root, split_path(path, root)) is not None

    def hide_secrets(self) -> dict[str, Any]:
        """Return `data` for display, with every secret replaced by `****`."""
        return self.provenance.hide_secrets()

    def secret_values(self) -> set[str]:
        """Return the secrets, which must not appear in logs and messages."""
        return set(self.provenance.secrets)


def load(
    overrides: Sequence[str] | None,
    *,
    env_path: Path | None = ENV_FILE,
    initial: Mapping[str, Any] | None = None,
    command_keys: type[BaseModel] | None = None,
    other_keys: Sequence[type[BaseModel]] = (),
    working_directory: Path | None = None,
    makes_token: bool = False,
    keeps_typed_keys: bool = False,
    inspect: Inspect | None = None,
) -> GlobalConfig:
    """Load the configuration of a command line.

    - `env_path` is relative to the working directory. The default need not exist; None reads no file.
    - `initial` overrides `env.yaml` and is overridden by the command line.
    - `command_keys` are the top-level keys of a command. They are validated, and left out of `data`.
    - `other_keys` are those of other commands. They are left out without validation.
    - `makes_token` adds a random `run_token` if there is none, for programs that run servers in their own process.
    - `keeps_typed_keys` accepts every key of the command line, for programs that read keys of their own.
    - `inspect` (of an `Inspector`) validates the options of servers. Without it, only the keys that the gym itself
      reads are validated.

    Raises `ConfigErrors` with all problems.
    """
    folder = (working_directory or Path.cwd()).resolve()
    loader = _Loader(folder, command_keys, other_keys, keeps_typed_keys)
    config = loader.load(overrides or (), env_path, initial, makes_token, inspect)
    loader.problems.raise_if_any()
    assert config is not None
    return config


def load_keys(
    arguments: Sequence[str], model: type[KeysT], *, working_directory: Path | None = None
) -> KeysT:
    """Load the keys of a command that needs no gym configuration. Raises `ConfigErrors` with all problems.

    `env.yaml` may contain keys of the command. Its other keys are ignored.
    """
    loader = _Loader((working_directory or Path.cwd()).resolve(), model)
    keys = loader.load_keys(arguments, model)
    loader.problems.raise_if_any()
    assert keys is not None
    return keys


def outline(arguments: Sequence[str], working_directory: Path, problems: Problems) -> dict[str, Any]:
    """Return the composed configuration as plain values, with interpolations as text and without any check.

    Empty if a file or an argument cannot be read, which is a problem.
    """
    return _Loader(working_directory.resolve(), None, problems=problems).outline(arguments)


@dataclass
class _Loader:
    """The steps of one load, and the problems that they find."""

    working_directory: Path
    command_keys: type[BaseModel] | None
    other_keys: Sequence[type[BaseModel]] = ()
    keeps_typed_keys: bool = False
    problems: Problems = field(default_factory=Problems)

    def __post_init__(self) -> None:
        self.command_names = list_keys(self.command_keys) if self.command_keys else {}
        others = {key for model in self.other_keys for key in list_keys(model)}
        self.known = {*GlobalKeys.model_fields, *self.command_names, *others}

    def load(
        self,
        arguments: Sequence[str],
        env_path: Path | None,
        initial: Mapping[str, Any] | None,
        makes_token: bool,
        inspect: Inspect | None,
    ) -> GlobalConfig | None:
        sources = self._sources(arguments, env_path, initial)
        accepted = self.known | (sources.typed_keys if self.keeps_typed_keys else set())
        composed = compose(sources, self.problems, accepted)
        directives = Directives(composed.root, self.problems)
        root = drop_placeholders(directives.resolve())
        report_missing(root, self.problems)
        data = resolve(root, self.problems)
        check_sources(root, sources.env, self.problems)
        keys = fill_defaults(root, data, self.problems)
        give_agents_their_defaults(data, keys)
        command_keys = self._take_command_keys(root, data)
        declared, blocks = find_servers(root, data, self.known, self.working_directory, self.problems)
        taken_over = {str(path[0]): where for path, where in directives.dropped.items() if len(path) == 1}
        check_references(blocks, root, taken_over, self.problems)
        check_allowed(declared, self.problems)
        datasets = read_datasets(declared, root, self.working_directory, self.problems)
        servers = tuple(server for server in declared if not server.is_alias)
        if makes_token and not data.get("run_token"):
            data["run_token"] = token_urlsafe(24)
        check_addresses(servers, data, root, self.problems)
        self._check_tls(servers, data, root, command_keys)
        report_unknown_keys(
            root, composed.root, data, accepted | set(sources.env.entries) | composed.named, self.problems
        )
        check_aliases(declared, root, self.problems)
        runs_code = check_options(servers, data, root, self.problems, self.working_directory, inspect)
        if self.problems.found:
            return None
        provenance = Provenance.from_config(root, data)
        return GlobalConfig(
            data, servers, datasets, self.problems.warnings, command_keys, provenance, tuple(runs_code)
        )

    def outline(self, arguments: Sequence[str]) -> dict[str, Any]:
        composed = compose(self._sources(arguments, ENV_FILE, None), self.problems, self.known)
        root = Directives(composed.root, self.problems).resolve()
        plain: dict[str, Any] = {} if self.problems.has_gaps else dump_plain(root)
        return plain

    def load_keys(self, arguments: Sequence[str], model: type[KeysT]) -> KeysT | None:
        sources = self._sources(arguments, ENV_FILE, None)
        composed = compose(sources, self.problems, set(self.command_names), read_files=False)
        root = Directives(composed.root, self.problems).resolve()
        typed = sources.typed_keys
        wanted = {
            key: tree for key, tree in root.entries.items() if key in typed or key in self.command_names
        }
        keys = DictTree(wanted, root.where)
        report_missing(keys, self.problems)
        data = resolve(root, self.problems, only=set(wanted))
        if model.model_config.get("extra") != "allow":
            for key in set(wanted) - set(self.command_names):
                near = did_you_mean(key, self.command_names)
                self.problems.add(
                    wanted[key].where, f"There is no key {key!r}.", near or "See --help for the keys."
                )
        known = {key: data[key] for key in wanted if key in self.command_names}
        return validate(model, known, keys, self.problems)

    def _sources(
        self, arguments: Sequence[str], env_path: Path | None, initial: Mapping[str, Any] | None
    ) -> ConfigSources:
        env = self._read_env(env_path)
        flags = _flags(self.command_keys) | _flags(GlobalKeys)
        overrides = parse_overrides(arguments, self.problems, self.known, flags)
        given = build_tree(initial or {}, INITIAL, self.problems)
        return ConfigSources(overrides, env, given, self.working_directory)

    def _read_env(self, env_path: Path | None) -> DictTree:
        empty = DictTree({}, Location("env.yaml"))
        if env_path is None:
            return empty
        path = self.working_directory / env_path
        if env_path == ENV_FILE and not path.exists():
            return empty
        return read_yaml(path, display_path(path, self.working_directory), self.problems) or empty

    def _check_tls(
        self,
        servers: Iterable[ServerInstance],
        data: dict[str, Any],
        root: DictTree,
        command_keys: BaseModel | None,
    ) -> None:
        if not member(data, TLS_KEY, "ca"):
            return  # without TLS, or reported already
        from nemo_gym.config._tls_block import check_tls

        check_tls(servers, data, root, self.working_directory, command_keys, self.problems)

    def _take_command_keys(self, root: DictTree, data: dict[str, Any]) -> BaseModel | None:
        """Return the command's keys. Keys of commands are removed from `data`, except global keys."""
        given = {key: data[key] for key in self.command_names if key in data}
        for key in (self.known & set(data)) - set(GlobalKeys.model_fields):
            del data[key]
        return validate(self.command_keys, given, root, self.problems) if self.command_keys else None


def _flags(model: type[BaseModel] | None) -> set[str]:
    """Return the Boolean keys of `model`, for which `--key` needs no value."""
    if model is None:
        return set()
    names = list_keys(model)
    return {key for key, name in names.items() if model.model_fields[name].annotation in (bool, bool | None)}
