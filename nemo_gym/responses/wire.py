"""Base classes and field types of all API models.

Answers of different engine versions have missing, null or additional fields. A wire model keeps unknown fields, so
that answers pass through without loss, and `NullMeansDefault` treats null as absent. Models of other packages such as
`openai` are read through their JSON and not by attributes, which would drop undeclared fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    model_validator,
    with_config,
)
from pydantic_core import PydanticUseDefault
from pydantic_core.core_schema import CoreSchema, tagged_union_schema
from typing_extensions import TypedDict

TEXT_FORMAT_SCHEMA = "schema"
"""The JSON name of a schema. A pydantic model cannot have a field of that name, so `openai`'s models name it
`schema_`, also in their dumps unless aliases are requested."""


class WireModel(BaseModel, extra="allow", protected_namespaces=()):
    """A JSON object of an API that others define: unknown fields are kept."""


class TaggedWireModel(WireModel):
    """A wire model that is identified by constant fields.

    These fields are dumped even with `exclude_unset`: authors rely on their defaults, and the receiver needs them to
    identify the model.
    """

    constant_fields: ClassVar[frozenset[str]] = frozenset({"type"})

    def model_post_init(self, context: Any, /) -> None:
        self.__pydantic_fields_set__.update(self.constant_fields)


@with_config(ConfigDict(extra="allow"))
class OpenTypedDict(TypedDict):
    """A JSON object that stays a dict: declared fields are checked, unknown fields are kept."""


class Selected:
    """Marks a union whose model a function selects. Only this model is validated, so errors refer to it."""

    def __init__(
        self, select: Callable[[Any], type | None], models: Iterable[type] = (), no_model: str | None = None
    ) -> None:
        """`models`: by default those of the union. `no_model`: the error message if `select` returns None."""
        self._select = select
        self._models = models
        self._no_model = no_model

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        select = self._select

        def find_tag(value: Any) -> str | None:
            model = select(value)
            return model.__name__ if model else None

        return tagged_union_schema(
            {model.__name__: handler.generate_schema(model) for model in self._models or get_args(source)},
            find_tag,
            custom_error_type="not_in_union" if self._no_model else None,
            custom_error_message=self._no_model,
        )


class AnswerModel(WireModel):
    """An answer, which may be given as a model of another package: it is read through its JSON."""

    @model_validator(mode="before")
    @classmethod
    def _read_models_of_other_packages(cls, value: Any) -> Any:
        return convert_foreign(value)


def read_field(value: object, name: str) -> Any:
    """Return the field `name` of a JSON object or a model, or None."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def read_content_text(content: object) -> str:
    """Return the text of an item's content: a string, or the texts of its parts, which are JSON objects or models."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    return "".join(str(read_field(part, "text") or "") for part in parts)


def convert_to_plain(value: object) -> object:
    """Return `value` with models converted to JSON objects, one list deep."""
    if type(value) is dict:
        return value
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_unset=True)
    if isinstance(value, list):
        return [convert_to_plain(part) for part in value]
    return value


def convert_foreign(value: object) -> object:
    """Return `value` with models of other packages converted to JSON objects, one list deep."""
    if isinstance(value, list):
        return [part if type(part) is dict else convert_foreign(part) for part in value]
    return value if isinstance(value, WireModel) else convert_to_plain(value)


def convert_text_config(value: object) -> object:
    """Return `text` of a request or an answer, with the format's schema under its JSON name."""
    plain = convert_to_plain(value)
    text_format = plain.get("format") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(text_format, dict) or "schema_" not in text_format:
        return plain
    renamed = {TEXT_FORMAT_SCHEMA if key == "schema_" else key: part for key, part in text_format.items()}
    return {**plain, "format": renamed}


def _use_default_for_null(value: object) -> object:
    if value is None:
        raise PydanticUseDefault
    return value


NullMeansDefault = BeforeValidator(_use_default_for_null)
"""Marks a field for which null means absent."""

Plain = BeforeValidator(convert_to_plain)
"""Marks a field that is stored as plain JSON, even if it was passed as models."""

Own = BeforeValidator(convert_foreign)
"""Marks a field of wire models that may be passed as models of another package."""

JsonObject: TypeAlias = Annotated[dict[str, Any], Plain]
JsonObjects: TypeAlias = Annotated[list[dict[str, Any]], Plain]

TextConfig: TypeAlias = Annotated[dict[str, Any], BeforeValidator(convert_text_config)]
"""The `text` field of a request or an answer: plain JSON with JSON names."""
