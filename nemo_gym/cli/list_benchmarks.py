"""`ng_list_benchmarks`: list the benchmarks."""

from __future__ import annotations

from pydantic import Field

from nemo_gym.cli.command import Command, Keys
from nemo_gym.cli.list import ListKeys, list_implementations
from nemo_gym.config.types import Domain


class BenchmarkListKeys(Keys):
    domain: Domain | None = Field(None, description="Only benchmarks of this domain.")
    as_json: bool = Field(False, alias="json", description="Print JSON instead of a table.")


COMMAND = Command(
    name="ng_list_benchmarks",
    summary="List all benchmarks with domain and description.",
    example="ng_list_benchmarks +domain=math",
    keys=BenchmarkListKeys,
)


def list_benchmarks(keys: BenchmarkListKeys) -> int:
    return list_implementations(ListKeys(kind="benchmarks", domain=keys.domain, as_json=keys.as_json))


main = COMMAND.entry_point(list_benchmarks)
