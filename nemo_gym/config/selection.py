"""The configuration that a command line selects by names: its files, its model and its agent, as overrides.

A selection adds the parts that a name leaves open: the model server of the policy, the agent of an environment without
one, or another agent in the place of the environment's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.config.components import (
    AGENT,
    BENCHMARK,
    ENVIRONMENT,
    MODEL,
    RESOURCES_SERVER,
    ComponentKind,
    NamedFile,
    find_components,
    find_config,
    find_config_at,
    has_component,
)
from nemo_gym.config.loading import outline
from nemo_gym.config.problems import Problems, did_you_mean
from nemo_gym.config.spelling import spell
from nemo_gym.config.yaml_text import load_yaml
from nemo_gym.paths import extra_roots, search_roots, set_extra_roots

POLICY = "policy_model"
"""The server to which environments leave the choice of the model."""
DEFAULT_MODEL = "vllm_model"
DEFAULT_AGENT = "simple_agent"
AGENTS = "responses_api_agents"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedConfig:
    """The names and files on a command line."""

    targets: Sequence[str] = ()
    """Names of environments, benchmarks and resources servers, and paths of files and folders."""
    environments: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    resources_servers: Sequence[str] = ()
    configs: Sequence[str] = ()
    model_type: str | None = None
    agent_type: str | None = None


@dataclass(frozen=True, slots=True)
class SelectedConfig:
    """The overrides that a selection means."""

    overrides: list[str]
    name: str | None
    """The name of the first component, or the stem of the first file."""
    is_benchmark: bool
    keys: Collection[str]
    """The top-level keys of the configuration and of `env.yaml`."""


def select(
    selection: NamedConfig, overrides: Sequence[str], working_directory: Path, *, needs_model: bool = True
) -> SelectedConfig:
    """Return the overrides of a selection, followed by `overrides`.

    If `needs_model` is false, no model is added. Raises `ConfigErrors` with every unknown and ambiguous name.
    """
    selector = _Selector(working_directory)
    files = [*selector.list_overrides(selection), *map(str, selection.configs)]
    if selection.model_type is not None:
        files += selector.config(MODEL, selection.model_type)
    agent = selector.agent_block(selection.agent_type) if selection.agent_type else None
    selector.problems.raise_if_any()
    paths = [_config_paths(files)] if files else []
    found = outline([*paths, *overrides], working_directory, Problems())  # the command reports the problems
    added = [*_agent_overrides(found, agent, selection.agent_type, selector.problems)] if files else []
    selector.problems.raise_if_any()
    if needs_model and files:
        url = found.get("policy_base_url")
        if POLICY not in found and _is_named(POLICY, found, added):
            paths = [_config_paths([*files, *selector.config(MODEL, DEFAULT_MODEL)])]
            url = url or "http:"  # a missing URL is reported, and a missing key would be noise beside it
        added += _key_for_plain_http(str(url or "https:"), found)
    return SelectedConfig(
        [*paths, *added, *overrides], _choose_name(selection), selector.is_benchmark, set(found)
    )


def _choose_name(selection: NamedConfig) -> str | None:
    names = (*selection.targets, *selection.environments, *selection.benchmarks, *selection.resources_servers)
    first = next(iter((*names, *selection.configs)), None)
    return Path(first).stem if first is not None else None


def _key_for_plain_http(url: str, found: Mapping[str, Any]) -> list[str]:
    """Engines of one's own need no key. One that is given stays."""
    has_key = url.startswith("https:") or "policy_api_key" in found
    return [] if has_key else ["++policy_api_key=none"]


def _config_paths(files: Sequence[str]) -> str:
    return f"++config_paths={spell(list(dict.fromkeys(files)))}"


@dataclass
class _Selector:
    working_directory: Path
    problems: Problems = field(default_factory=Problems)
    is_benchmark: bool = False

    def list_overrides(self, selection: NamedConfig) -> Iterator[str]:
        for target in selection.targets:
            yield from self._target(target)
        for kind, names in (
            (ENVIRONMENT, selection.environments),
            (BENCHMARK, selection.benchmarks),
            (RESOURCES_SERVER, selection.resources_servers),
        ):
            for name in names:
                yield from self.config(kind, name)

    def config(self, kind: ComponentKind, name: str) -> list[str]:
        """Return the file of a component as `config_paths` contains it; nothing if there is a problem."""
        if kind is ENVIRONMENT and not self._has(ENVIRONMENT, name) and self._has(RESOURCES_SERVER, name):
            kind = RESOURCES_SERVER  # with its agent, it is an environment
        found = find_config(kind, name, self.working_directory, self.problems)
        self.is_benchmark |= kind is BENCHMARK
        return [found.text] if found else []

    def agent_block(self, name: str) -> Mapping[str, Any]:
        """Return the only agent in the configuration of an agent: `{implementation: options}`."""
        found = find_config(AGENT, name, self.working_directory, self.problems)
        try:
            content = load_yaml(found.path.read_bytes()) if found else {}
        except yaml.YAMLError as error:
            self.problems.add(None, f"{found.path if found else name} is not YAML that can be read: {error}")
            return {}
        blocks = [block[AGENTS] for block in content.values() if isinstance(block, dict) and AGENTS in block]
        if found and len(blocks) != 1:
            self.problems.add(None, f"{found.path} does not declare one agent, but {len(blocks)}.")
        return blocks[0] if blocks else {}

    def _target(self, target: str) -> list[str]:
        if target.endswith((".yaml", ".yml")) and not Path(target).expanduser().is_file():
            return [target]  # a file of a root, or the loader reports it
        if _is_path(target):
            found = find_config_at(target, self.problems)
            return [self._file(found)] if found else []
        kinds = [each for each in (ENVIRONMENT, BENCHMARK, RESOURCES_SERVER) if self._has(each, target)]
        if kinds[:1] == [ENVIRONMENT] and RESOURCES_SERVER in kinds:
            kinds.remove(RESOURCES_SERVER)  # the environment is made of it
        if len(kinds) == 1:
            return self.config(kinds[0], target)
        if kinds:
            choices = " or ".join(f"{kind.option} {target}" for kind in kinds)
            nouns = " and a ".join(kind.noun for kind in kinds)
            self.problems.add(None, f"{target!r} is a {nouns}.", f"Write {choices}.")
        else:
            self._report_unknown(target)
        return []

    def _file(self, found: NamedFile) -> str:
        if found.root not in search_roots(self.working_directory):
            set_extra_roots(*extra_roots(), found.root)
        return found.text

    def _report_unknown(self, target: str) -> None:
        kinds = (ENVIRONMENT, BENCHMARK, RESOURCES_SERVER)
        known = [each.name for kind in kinds for each in find_components(kind, self.working_directory)]
        near = did_you_mean(target, known)
        remedy = " ".join(part for part in (near, "See: gym list") if part)
        self.problems.add(None, f"There is no environment or benchmark {target!r}.", remedy)

    def _has(self, kind: ComponentKind, name: str) -> bool:
        return has_component(kind, name, self.working_directory)


def _is_path(target: str) -> bool:
    return target.endswith((".yaml", ".yml")) or target.startswith((".", "/", "~")) or Path(target).is_dir()


def _agent_overrides(
    found: Mapping[str, Any],
    replacement: Mapping[str, Any] | None,
    agent_type: str | None,
    problems: Problems,
) -> Iterator[str]:
    """Yield the overrides that give an environment its agent, or another agent."""
    declared = _find_agents(found)
    agents = {name: block for name, block in declared.items() if _runs_an_environment(block)}
    environments = [name for name, _ in _blocks(found, RESOURCES_SERVER.folder)]
    if not declared and len(environments) == 1:
        yield from _new_agent(environments[0], replacement or _default_agent(), agent_type or DEFAULT_AGENT)
    elif replacement is not None and len(agents) == 1:
        ((name, own),) = agents.items()
        yield from _replace_agent(name, own, replacement)
    elif replacement is not None:
        listed = ", ".join(agents) or "none"
        problems.add(
            None, f"--agent-type replaces the agent of one environment. The configuration has: {listed}."
        )


def _default_agent() -> Mapping[str, Any]:
    model = {"type": MODEL.folder, "name": POLICY}
    return {DEFAULT_AGENT: {"entrypoint": "app.py", "model_server": model}}


def _new_agent(environment: str, block: Mapping[str, Any], agent_type: str) -> Iterator[str]:
    ((implementation, options),) = block.items()
    server = {"type": RESOURCES_SERVER.folder, "name": environment}
    name = f"{environment}_{agent_type.partition('/')[0]}"
    yield f"++{name}.{AGENTS}.{implementation}={spell({**options, 'resources_server': server})}"


def _replace_agent(name: str, own: Mapping[str, Any], block: Mapping[str, Any]) -> Iterator[str]:
    """The agent keeps its name, so that rows and environment servers that refer to it stay valid."""
    ((implementation, options),) = block.items()
    ((former, former_options),) = own.items()
    kept = {key: former_options[key] for key in ("resources_server", "datasets") if key in former_options}
    if former != implementation:
        yield f"++{name}.{AGENTS}._delete_key={former}"
    yield f"++{name}.{AGENTS}.{implementation}={spell({**options, **kept})}"


def _find_agents(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the declared agents: `{implementation: options}` by name.

    A block without an entrypoint has options for an agent that is added or takes the place of another one.
    """
    agents: dict[str, Mapping[str, Any]] = {}
    for name, block in _blocks(found, AGENTS):
        given = block[AGENTS] if isinstance(block[AGENTS], dict) else {}
        declared = {
            key: each for key, each in given.items() if isinstance(each, dict) and "entrypoint" in each
        }
        if declared:
            agents[name] = declared
    return agents


def _runs_an_environment(implementations: Mapping[str, Mapping[str, Any]]) -> bool:
    return len(implementations) == 1 and all("resources_server" in each for each in implementations.values())


def _blocks(found: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((name, block) for name, block in found.items() if isinstance(block, dict) and kind in block)


def _is_named(server: str, found: Mapping[str, Any], added: Sequence[str]) -> bool:
    """Return whether a value is the name of `server`."""

    def contains(value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(contains, value.values()))
        return any(map(contains, value)) if isinstance(value, list) else bool(value == server)

    return contains(dict(found)) or any(f'"{server}"' in override for override in added)
