"""The catalogue of environments and benchmarks that consist of a configuration: `environments/` and `benchmarks/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from nemo_gym.config.components import MANIFEST, Component, ComponentKind, find_components
from nemo_gym.config.yaml_text import load_yaml
from nemo_gym.json_objects import member


class WorkloadEntry(NamedTuple):
    """The description of one environment or benchmark."""

    component: Component
    domain: str | None
    description: str

    def to_json(self) -> dict[str, Any]:
        component = self.component
        return {
            "kind": component.kind.folder,
            "name": component.name,
            "domain": self.domain,
            "description": self.description,
            "folder": str(component.folder),
            "configs": [str(path) for path in component.files],
        }


def read_workloads(
    kind: ComponentKind, working_folder: Path, domain: str | None = None
) -> list[WorkloadEntry]:
    """Return the entries of a kind, optionally of one domain only."""
    entries = [read_workload(component) for component in find_components(kind, working_folder)]
    return [entry for entry in entries if domain in (None, entry.domain)]


def read_workload(component: Component) -> WorkloadEntry:
    """Return the entry of one component. Its manifest has precedence over the servers in its configuration."""
    files = [component.folder / MANIFEST, *component.files]
    stated = [block for file in files for block in _blocks(read_config(file))]

    def first(key: str) -> Any:
        return next((block[key] for block in stated if block.get(key)), None)

    return WorkloadEntry(component, first("domain"), " ".join(str(first("description") or "").split()))


def read_config(file: Path) -> Any:
    """Return the content of a configuration file; None without a file, and for one that is not YAML."""
    try:
        return load_yaml(file.read_bytes()) if file.is_file() else None
    except yaml.YAMLError:
        return None  # ng_validate reports the error


def _blocks(content: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the top level and the options of the resources servers."""
    if not isinstance(content, Mapping):
        return
    yield content
    for block in content.values():
        servers = member(block, "resources_servers")
        for options in servers.values() if isinstance(servers, Mapping) else ():
            if isinstance(options, Mapping):
                yield options
