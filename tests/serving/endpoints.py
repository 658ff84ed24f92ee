"""An endpoint that an app answers directly."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Point(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    x: int
    schema_: str = Field("s", alias="schema")


async def echo(body: Point) -> Point:
    return body
