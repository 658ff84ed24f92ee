"""Parse XML to JSON values, without document types, because they can define entities that expand without limit.

The document is `{root: content}`. An element is its text, or an object of its children, with `@name` for attributes
and `#text` for text beside them. Children of the same name become an array. Namespace declarations are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.parsers import expat

from resources_servers.structured_outputs.documents.limits import MAX_DEPTH, DocumentError, too_deep


class _Element:
    """An XML element under construction."""

    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self.name = name
        self.members: dict[str, list[object]] = {
            f"@{key}": [value] for key, value in attributes.items() if not key.startswith("xmlns")
        }
        self.text: list[str] = []

    def value(self) -> object:
        text = "".join(self.text).strip()
        if not self.members:
            return text
        members = {name: found if len(found) > 1 else found[0] for name, found in self.members.items()}
        return {**members, "#text": text} if text else members


class _XmlReader:
    """Builds the JSON value of an XML document from expat's events."""

    def __init__(self) -> None:
        self.document = _Element("", {})
        self.open = [self.document]

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if len(self.open) > MAX_DEPTH:
            raise too_deep()
        self.open.append(_Element(name, attributes))

    def end(self, name: str) -> None:
        element = self.open.pop()
        self.open[-1].members.setdefault(name, []).append(element.value())

    def text(self, text: str) -> None:
        self.open[-1].text.append(text)

    def doctype(self, *_: object) -> None:
        raise DocumentError("document types are not supported")


def parse_xml(text: str) -> object:
    """Return the JSON value of an XML document. Raises DocumentError."""
    reader = _XmlReader()
    parser = expat.ParserCreate(encoding="utf-8")
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(text.strip().encode(), True)
    except expat.ExpatError as error:
        raise DocumentError(f"not XML: {error}") from error
    return reader.document.value()
