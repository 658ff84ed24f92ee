"""A panel of an environment: what the viewer shows of a rollout beside its reward.

An environment puts it into its answer of `verify` as `panel`, or into the `info` of its last step:

    class BoardVerifyResponse(BaseVerifyResponse):
        panel: Panel

    Panel(title="The hand", fields=[BoardField(title="Cards", rows=[["A", "K"], ["9", "7"]])])

The page shows all of it as text, and never as HTML.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["BoardField", "Panel", "TextField"]

Cell: TypeAlias = str | int | float | bool | None
_MOST_FIELDS = 50


class _PanelPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""


class TextField(_PanelPart):
    """A text, program code, or a difference in the unified format."""

    kind: Literal["text", "code", "diff"] = "text"
    text: str


class ImageField(_PanelPart):
    """An image inside of the row."""

    kind: Literal["image"] = "image"
    url: str = Field(pattern=r"^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*$")


class TableField(_PanelPart):
    """Rows below the names of their columns."""

    kind: Literal["table"] = "table"
    columns: list[str]
    rows: list[list[Cell]]


class BoardField(_PanelPart):
    """Squares of one size, such as those of a game. Rows may differ in length."""

    kind: Literal["board"] = "board"
    rows: list[list[str]]


PanelField: TypeAlias = Annotated[
    TextField | ImageField | TableField | BoardField, Field(discriminator="kind")
]


class Panel(_PanelPart):
    """A title and fields, in the order in which they are shown."""

    fields: list[PanelField] = Field(max_length=_MOST_FIELDS)
