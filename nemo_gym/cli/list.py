"""`ng_list`: list all environments, agents and models."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.config.types import Domain, ServerKind

if TYPE_CHECKING:
    from nemo_gym.authoring.catalog import CatalogEntry

_TITLES: dict[ServerKind, str] = {
    "resources_servers": "environments",
    "responses_api_models": "models",
    "responses_api_agents": "agents",
    "environment_servers": "environment servers",
}


class ListKeys(Keys):
    kind: ServerKind | None = Field(None, description="Only implementations of this kind.")
    domain: Domain | None = Field(None, description="Only environments of this domain.")
    as_json: bool = Field(False, alias="json", description="Print JSON instead of tables.")


COMMAND = Command(
    name="ng_list",
    summary="List all environments, agents and models with domain, verification and description.",
    example="ng_list +domain=math",
    keys=ListKeys,
)


def list_implementations(keys: ListKeys) -> int:
    from nemo_gym.authoring.catalog import read_catalog

    entries = read_catalog(Path.cwd(), keys.kind, keys.domain)
    if keys.as_json:
        print(json.dumps([entry.to_json() for entry in entries], indent=2))
        return ExitCode.COMPLETE
    for kind, title in _TITLES.items():
        of_kind = [entry for entry in entries if entry.implementation.kind == kind]
        if of_kind:
            _print_table(title, of_kind)
    return ExitCode.COMPLETE


def _print_table(title: str, entries: Sequence[CatalogEntry]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title=f"{title} ({len(entries)})", title_justify="left"
    )
    is_environments = any(entry.verification for entry in entries)
    table.add_column("name", no_wrap=True)
    for column in ("domain", "verification") if is_environments else ():
        table.add_column(column)
    table.add_column("description")
    for entry in entries:
        own = (entry.domain or "-", ", ".join(entry.verification)) if is_environments else ()
        table.add_row(entry.implementation.name, *own, entry.description)
    console = Console(file=sys.stdout, highlight=False, markup=False)
    console.print(table)


main = COMMAND.entry_point(list_implementations)
