"""`ng_validate`: check a configuration without starting its servers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from nemo_gym.cli.command import ConfigCommand, ExitCode, Keys
from nemo_gym.config.problems import Problems
from nemo_gym.json_objects import object_in

if TYPE_CHECKING:
    from rich.text import Text

    from nemo_gym.config.datasets import ServerDataset
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.config.servers import ServerInstance


class ValidateKeys(Keys):
    as_json: bool = Field(False, alias="json", description="Print JSON instead of text.")
    input_jsonl_fpath: str | None = Field(None, description="Task rows, which must be readable.")
    output_jsonl_fpath: str | None = Field(
        None, description="The file for scored rows, which must be writable."
    )
    placement: Literal["process", "inline", "hosts", "ray"] = Field(
        "process",
        description="The placement of the command to come, for the hosts that `tls` must be valid for.",
    )


COMMAND = ConfigCommand(
    name="ng_validate",
    summary="Check a configuration, its files, ports and output without starting anything.",
    example="ng_validate '+config_paths=[configs/math.yaml]' +output_jsonl_fpath=results/math.jsonl",
    keys=ValidateKeys,
    accepts_keys_of=("e2e_collect_rollouts",),
)


def validate(keys: ValidateKeys, config: GlobalConfig) -> int:
    problems = Problems()
    check_datasets(config.datasets, problems)
    check_ports(config, problems)
    if keys.input_jsonl_fpath:
        _check_rows(Path(keys.input_jsonl_fpath), "input_jsonl_fpath", problems)
    if keys.output_jsonl_fpath:
        check_output(Path(keys.output_jsonl_fpath), problems)
    isolation = check_isolation(config, problems)
    check_sandbox_providers(config, problems)
    check_verifiers(config, problems)
    for warning in problems.warnings:
        print(f"{COMMAND.shown_name}: warning: {warning}", file=sys.stderr)
    problems.raise_if_any()
    if keys.as_json:
        print(json.dumps(summary(config) | {"isolation": isolation}, indent=2))
    else:
        print("\n".join([*_text(config), *([isolation] if isolation else [])]))
    return ExitCode.COMPLETE


def check_datasets(datasets: Iterable[ServerDataset], problems: Problems) -> None:
    """Check that the existing files of datasets can be read."""
    for server, dataset, file, where in datasets:
        if file is None:
            problems.warn(f"{where}: the file of dataset {dataset.name} of {server.name} does not exist yet")
        else:
            _check_rows(file, f"dataset {dataset.name} of {server.name}", problems)


def _check_rows(file: Path, what: str, problems: Problems) -> None:
    """Check the first row, which reveals Git LFS pointers and files of other formats."""
    try:
        with file.open("rb") as lines:
            first = next((line for line in lines if line.strip()), None)
    except OSError as error:
        problems.add(
            None, f"{what}: {file} cannot be read: {error.strerror}.", "Check the path and its permissions."
        )
        return
    if first is None:
        problems.add(None, f"{what}: {file} has no rows.")
    elif not file.name.endswith((".gz", ".zst")) and object_in(first) is None:
        problems.add(
            None, f"{what}: the first line of {file} is not a JSON object.", "Each line must be one task row."
        )


def check_ports(config: GlobalConfig, problems: Problems) -> None:
    """Check that every fixed port is free. A used default port of the head server is only a warning."""
    from nemo_gym.config.addresses import list_fixed_addresses
    from nemo_gym.config.tree import nearest_location
    from nemo_gym.failures import ConfigError
    from nemo_gym.launch.sockets import hold
    from nemo_gym.names import HEAD_SERVER

    for address in list_fixed_addresses(config.servers, config.data):
        try:
            hold(address.host, address.port, holder_of=address.server).close()
        except ConfigError as error:
            if address.server == HEAD_SERVER and not config.is_given("head_server.port"):
                problems.warn(f"{error.failure.message}; the head server will listen on another port")
                continue
            where = nearest_location(config.provenance.root, address.path)
            problems.add(where, f"{error.failure.message}.", error.failure.remedy)


def check_isolation(config: GlobalConfig, problems: Problems) -> str | None:
    """Return the isolation of code of models on this machine; None if no server runs any."""
    if not config.code_runners:
        return None
    import asyncio

    from nemo_gym.failures import ConfigError
    from nemo_gym.isolation.execution import announcement

    try:
        return asyncio.run(announcement(config.code_runners))
    except ConfigError as error:
        problems.add(None, error.failure.message, error.failure.remedy)
        return None


def check_sandbox_providers(config: GlobalConfig, problems: Problems) -> None:
    """Check that the sandboxes of every server can run on this machine."""
    if not any(server.config.get("sandbox_provider") for server in config.servers):
        return
    from nemo_gym.sandbox.availability import find_missing_providers

    for problem in find_missing_providers(config.servers, config.data):
        problems.add(problem.where, problem.message, problem.remedy)


def check_verifiers(config: GlobalConfig, problems: Problems) -> None:
    """Check that environments that claim `verified: true` have a card that supports it."""
    if any(server.config.get("verified") is True for server in config.servers):
        from nemo_gym import PARENT_DIR
        from nemo_gym.audit.claims import check_claims

        check_claims(config.servers, PARENT_DIR / "resources_servers", problems)


def check_output(file: Path, problems: Problems) -> None:
    """Check that `file`, or its nearest existing ancestor, is writable."""
    target = file if file.exists() else next(folder for folder in file.absolute().parents if folder.exists())
    if file.is_dir():
        problems.add(None, f"output_jsonl_fpath: {file} is a folder.", "Give a file.")
    elif not os.access(target, os.W_OK) or (target != file and not target.is_dir()):
        problems.add(None, f"output_jsonl_fpath: {target} cannot be written.", "Give another path.")


def summary(config: GlobalConfig) -> dict[str, Any]:
    """Return the servers and datasets of the configuration."""
    servers = [
        {
            "name": server.name,
            "kind": server.kind,
            "implementation": server.implementation,
            "directory": str(server.directory),
            "entrypoint": server.entrypoint,
            "num_workers": server.num_workers,
            "host": server.config.get("host") or config.data["default_host"],
            "port": server.config.get("port"),
            "where": str(server.where),
        }
        for server in config.servers
    ]
    datasets = [
        {
            "server": server.name,
            "name": dataset.name,
            "type": dataset.type,
            "file": str(file) if file else None,
        }
        for server, dataset, file, _ in config.datasets
    ]
    return {"ok": True, "servers": servers, "datasets": datasets, "warnings": config.warnings}


def _text(config: GlobalConfig) -> list[str]:
    from nemo_gym.tables import Column, table_lines, terminal_width

    columns = [Column("server"), Column("implementation", 2), Column("port", 1), Column("where", 3)]
    rows = [_row(server) for server in config.servers]
    lines = [line.plain for line in table_lines(columns, rows, terminal_width())[1:]]
    return [
        *lines,
        f"valid: {_write_count(len(rows), 'server')}, {_write_count(len(config.datasets), 'dataset')}",
    ]


def _row(server: ServerInstance) -> list[str | Text]:
    port = server.config.get("port")
    kind = f"{server.kind}/{server.implementation}"
    return [server.name, kind, f"port {port}" if port else "any port", str(server.where)]


def _write_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


main = COMMAND.entry_point(validate)
