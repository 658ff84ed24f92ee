"""The catalogue of all environments, agents and models, from their configuration files and docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_gym.authoring._verification import verification_patterns
from nemo_gym.authoring.implementations import ENTRYPOINT, Implementation, find_implementations
from nemo_gym.authoring.workloads import read_config
from nemo_gym.json_objects import member
from nemo_gym.names import ServerKind

_ENVIRONMENTS: ServerKind = "resources_servers"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """The description of one implementation."""

    implementation: Implementation
    domain: str | None
    verification: tuple[str, ...]
    """Its verification patterns; empty for agents and models."""
    description: str
    is_verified: bool
    """True if its configuration states that training on it was shown to help."""
    example_tasks: int

    def to_json(self) -> dict[str, Any]:
        implementation = self.implementation
        return {
            "entrypoint": implementation.entrypoint,
            "kind": implementation.kind,
            "name": implementation.name,
            "domain": self.domain,
            "verification": list(self.verification),
            "description": self.description,
            "verified": self.is_verified,
            "example_tasks": self.example_tasks,
            "has_tests": implementation.has_tests,
            "folder": str(implementation.folder),
            "configs": [str(path) for path in implementation.configs],
        }


def read_catalog(
    working_folder: Path, kind: ServerKind | None = None, domain: str | None = None
) -> list[CatalogEntry]:
    """Return the entries, optionally of one kind or one domain only."""
    entries = (read_entry(each) for each in find_implementations(working_folder, kind))
    return [entry for entry in entries if domain in (None, entry.domain)]


def read_entry(implementation: Implementation) -> CatalogEntry:
    """Return the entry of one implementation. The first configuration file that sets a value wins."""
    blocks = list(_own_blocks(implementation))

    def find_stated(key: str) -> Any:
        return next((block[key] for block in blocks if block.get(key) is not None), None)

    is_environment = implementation.kind == _ENVIRONMENTS
    return CatalogEntry(
        implementation,
        domain=find_stated("domain"),
        verification=tuple(verification_patterns(implementation.folder)) if is_environment else (),
        description=str(find_stated("description") or _docstring(implementation)),
        is_verified=find_stated("verified") is True,
        example_tasks=_count_rows(implementation.folder / "data" / "example.jsonl"),
    )


def _own_blocks(implementation: Implementation) -> Iterator[Mapping[str, Any]]:
    """Yield the unresolved blocks of this implementation in its own configuration files."""
    for path in implementation.configs:
        config = read_config(path)
        for instance in config.values() if isinstance(config, Mapping) else ():
            block = member(instance, implementation.kind, implementation.name)
            if isinstance(block, Mapping):
                yield block


def _docstring(implementation: Implementation) -> str:
    """Return the first sentence of the docstring of the module or of its last documented class."""
    try:
        tree = ast.parse((implementation.folder / ENTRYPOINT).read_bytes())
    except (SyntaxError, ValueError):
        return ""
    text = ast.get_docstring(tree) or next(
        (
            found
            for element in reversed(tree.body)
            if isinstance(element, ast.ClassDef) and (found := ast.get_docstring(element))
        ),
        "",
    )
    first = " ".join(text.split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".")


def _count_rows(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as lines:
        return sum(1 for line in lines if line.strip())
