"""Commands with few keys."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from nemo_gym.cli.command import Command, ConfigCommand, Keys


class SampleKeys(Keys):
    limit: int = Field(10, description="How many rows to take.")
    output: str | None = Field(None, description="Where rows go.")
    params: dict[str, float] = Field(default_factory=dict, description="Laid over every row.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


SAMPLE = Command(name="ng_sample", summary="Take a sample.", example="ng_sample +limit=3", keys=SampleKeys)


CONFIGURED = ConfigCommand(name="ng_configured", summary="Read it.", example="ng_configured", keys=SampleKeys)


def fails(error: BaseException) -> Callable[[SampleKeys], int]:
    def handler(keys: SampleKeys) -> int:
        raise error

    return handler
