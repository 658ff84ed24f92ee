"""`ng_list`: list all environments, benchmarks, agents and models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, several
from nemo_gym.config.types import Domain
from nemo_gym.names import ServerKind
from nemo_gym.tables import Column, table_lines, terminal_width

if TYPE_CHECKING:
    from nemo_gym.authoring.catalog import CatalogEntry
    from nemo_gym.authoring.workloads import WorkloadEntry

Title: TypeAlias = Literal[
    "environments",
    "foreign-environments",
    "benchmarks",
    "models",
    "agents",
    "environment-servers",
    "resources-servers",
]
_KINDS: dict[Title, ServerKind] = {
    "models": "responses_api_models",
    "agents": "responses_api_agents",
    "environment-servers": "environment_servers",
    "resources-servers": "resources_servers",
}
KINDS = (*get_args(Title), *(kind.replace("_", "-") for kind in get_args(ServerKind)))
"""The kinds that `gym list` takes."""
_NARROWEST_DESCRIPTION = 30
"""Columns of the terminal. Other columns are left out, the last one first, until the description has as many."""


class ListKeys(Keys):
    kind: Title | ServerKind | None = Field(
        None, description="Only this kind, as its title or its folder of servers."
    )
    name: str | None = Field(None, description="Only this name, with all that is known of it.")
    words: str | list[str] = Field(
        default_factory=list,
        description="Only entries with all of these words in name, domain or description.",
    )
    domain: Domain | None = Field(None, description="Only environments and benchmarks of this domain.")
    as_json: bool = Field(False, alias="json", description="Print JSON instead of tables.")


COMMAND = Command(
    name="ng_list",
    summary="List all environments, benchmarks, agents and models with domain, verification and description.",
    example="ng_list +domain=math",
    keys=ListKeys,
)


class Row(NamedTuple):
    """An entry of the list."""

    name: str
    cells: tuple[str, ...]
    """The cells between name and description."""
    description: str
    json: dict[str, Any]

    def has(self, words: Sequence[str]) -> bool:
        text = " ".join([self.name, *self.cells, self.description]).lower()
        return all(word.lower() in text for word in words)


def list_implementations(keys: ListKeys) -> int:
    sections = {title: rows for title, rows in _sections(keys) if rows}
    if keys.name is not None and not sections:
        raise _unknown(keys.name, keys)
    if keys.as_json:
        print(json.dumps([row.json for rows in sections.values() for row in rows], indent=2))
    elif keys.name is not None:
        print("\n\n".join("\n".join(_details(row)) for rows in sections.values() for row in rows))
    elif sections:
        tables = ("\n".join(table(title, rows, terminal_width())) for title, rows in sections.items())
        print("\n\n".join(tables))
    else:
        print("nothing is like this; `gym list` shows everything")
    return ExitCode.COMPLETE


def _sections(keys: ListKeys) -> Iterator[tuple[Title, list[Row]]]:
    for title, rows in _all_rows(keys):
        named = [row for row in rows if keys.name in (None, row.name)]
        yield title, [row for row in named if row.has(several(keys.words))]


def _all_rows(keys: ListKeys) -> Iterator[tuple[Title, list[Row]]]:
    from nemo_gym.authoring.catalog import read_catalog
    from nemo_gym.authoring.workloads import read_workloads
    from nemo_gym.config.components import BENCHMARK, ENVIRONMENT

    here = Path.cwd()
    if keys.kind in (None, "environments"):
        environments = [_workload(entry) for entry in read_workloads(ENVIRONMENT, here, keys.domain)]
        hidden = {row.name for row in environments}
        servers = [_implementation(each) for each in read_catalog(here, "resources_servers", keys.domain)]
        rows = [*environments, *(row for row in servers if row.name not in hidden)]
        yield "environments", sorted(rows, key=lambda row: row.name)
    if keys.kind in (None, "foreign-environments"):
        yield "foreign-environments", list(_foreign(keys.domain))
    if keys.kind in (None, "benchmarks"):
        yield "benchmarks", [_workload(entry) for entry in read_workloads(BENCHMARK, here, keys.domain)]
    for title, kind in _KINDS.items():
        if keys.kind in (title, kind) or (keys.kind is None and title != "resources-servers"):
            yield title, [_implementation(each) for each in read_catalog(here, kind, keys.domain)]


def _foreign(domain: Domain | None) -> Iterator[Row]:
    """Yield an example of each kind of environments of other projects."""
    from nemo_gym.sources.foreign.kinds import KINDS

    for kind in KINDS.values():
        if domain in (None, kind.domain):
            told = f"environments of {kind.title} by name ({kind.package}); docs/foreign_environments.md"
            about = {
                "name": kind.example,
                "kind": kind.name,
                "entrypoint": None,
                "domain": kind.domain,
                "description": told,
            }
            yield Row(kind.example, (kind.domain, "-"), told, about)


def _workload(entry: WorkloadEntry) -> Row:
    return Row(entry.component.name, (entry.domain or "-", "-"), entry.description, entry.to_json())


def _implementation(entry: CatalogEntry) -> Row:
    is_environment = entry.implementation.kind == "resources_servers"
    cells = (entry.domain or "-", ", ".join(entry.verification) or "-") if is_environment else ()
    return Row(entry.implementation.name, cells, entry.description, entry.to_json())


def table(title: str, rows: Sequence[Row], width: int | None) -> Iterator[str]:
    """Yield the lines of a table. Descriptions are cut at `width` columns of the terminal; None cuts nothing."""
    names = ("domain", "verification")[: len(rows[0].cells)]
    optional = [Column(name, rank) for rank, name in enumerate(names, start=1)]
    columns = [Column("name"), *optional, Column("description", shortest=_NARROWEST_DESCRIPTION)]
    yield f"{title} ({len(rows)})"
    for line in table_lines(columns, [[row.name, *row.cells, row.description] for row in rows], width):
        yield line.plain


def _details(row: Row) -> Iterator[str]:
    for key, value in row.json.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if isinstance(value, bool):
            text = "yes" if value else "no"
        yield f"{key.replace('_', ' ')}: {'-' if text in (None, '') else text}"


def _unknown(name: str, keys: ListKeys) -> Exception:
    from nemo_gym.config.problems import ConfigErrors, Problem, did_you_mean

    known = {row.name for _, rows in _all_rows(keys) for row in rows}
    return ConfigErrors([Problem(None, f"There is nothing named {name!r}.", did_you_mean(name, known))])


main = COMMAND.entry_point(list_implementations)
