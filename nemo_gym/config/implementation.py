"""The keys that a server's config class knows, read from its source without running it.

Importing a server to learn its options would load whatever it loads, so the class is followed through the syntax
trees of the files that define it: from `X.run_webserver()` to the `config:` of `X`, through its bases, to pydantic's
`BaseModel`. Where that trail is lost (a base of another package, a class that takes extra keys, a validator that
sees the keys first) nothing is known, and nothing is checked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_ROOT_MODELS = frozenset({"pydantic.BaseModel", "abc.ABC", "typing.Generic", "typing.Protocol"})
"""Bases that bring no keys."""
_MOST_BASES = 32


class _TrailLostError(Exception):
    """The keys of a class cannot be known from its source."""


@dataclass(frozen=True)
class _Module:
    """A parsed file: its classes, and what its imports call things."""

    classes: dict[str, ast.ClassDef]
    imported: dict[str, str]
    """Local name to the dotted name of what it is."""
    tree: ast.Module


def known_keys(app_file: Path, roots: tuple[Path, ...]) -> frozenset[str] | None:
    """The keys that the server in `app_file` takes, or None when its source does not tell.

    `roots` are the folders that absolute imports (`nemo_gym.…`, `resources_servers.…`) are looked up in.
    """
    try:
        return frozenset(_config_fields(app_file, (app_file.parent, *roots)))
    except _TrailLostError:
        return None


def _config_fields(app_file: Path, roots: tuple[Path, ...]) -> set[str]:
    module = _parse(app_file)
    served = _served_class(module.tree)
    server = _find_class(served, module, roots) if served else None
    if server is None:
        raise _TrailLostError
    for class_, home in _class_and_bases(*server, roots):
        annotation = _config_annotation(class_)
        if annotation is not None:
            return _fields_of(annotation, home, roots)
    raise _TrailLostError


def _fields_of(name: str, module: _Module, roots: tuple[Path, ...]) -> set[str]:
    found = _find_class(name, module, roots)
    if found is None:
        raise _TrailLostError
    fields: set[str] = set()
    for class_, _ in _class_and_bases(*found, roots):
        if _takes_anything(class_):
            raise _TrailLostError
        fields |= set(_own_fields(class_))
    return fields


def _class_and_bases(
    class_: ast.ClassDef, module: _Module, roots: tuple[Path, ...]
) -> Iterator[tuple[ast.ClassDef, _Module]]:
    """`class_` and everything it inherits from, nearest first, each with its module."""
    pending = [(class_, module)]
    for _ in range(_MOST_BASES):
        if not pending:
            return
        current, home = pending.pop(0)
        yield current, home
        for base in current.bases:
            name = _dotted(base.value if isinstance(base, ast.Subscript) else base)
            if name is None:
                raise _TrailLostError
            if _full_name(name, home) in _ROOT_MODELS:
                continue
            found = _find_class(name, home, roots)
            if found is None:
                raise _TrailLostError
            pending.append(found)
    raise _TrailLostError


def _find_class(name: str, module: _Module, roots: tuple[Path, ...]) -> tuple[ast.ClassDef, _Module] | None:
    """The class called `name` in `module`, followed through imports."""
    for _ in range(_MOST_BASES):
        if name in module.classes:
            return module.classes[name], module
        package, _, name = _full_name(name, module).rpartition(".")
        file = _file_of(package, roots) if package else None
        if file is None:
            return None
        module = _parse(file)
    return None


def _full_name(name: str, module: _Module) -> str:
    head, dot, rest = name.partition(".")
    return f"{module.imported.get(head, head)}{dot}{rest}"


def _file_of(module_name: str, roots: tuple[Path, ...]) -> Path | None:
    parts = module_name.split(".")
    candidates = (
        path
        for root in roots
        for path in (root.joinpath(*parts, "__init__.py"), root.joinpath(*parts[:-1], f"{parts[-1]}.py"))
    )
    return next((path for path in candidates if path.is_file()), None)


def _parse(file: Path) -> _Module:
    try:
        return _parse_version(file, file.stat().st_mtime_ns)
    except OSError as error:
        raise _TrailLostError from error


@lru_cache(maxsize=256)
def _parse_version(file: Path, _changed_at: int) -> _Module:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise _TrailLostError from error
    classes: dict[str, ast.ClassDef] = {}
    imported: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            classes[statement.name] = statement
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            imported |= {
                alias.asname or alias.name: f"{statement.module}.{alias.name}" for alias in statement.names
            }
        elif isinstance(statement, ast.Import):
            imported |= {alias.asname: alias.name for alias in statement.names if alias.asname}
    return _Module(classes, imported, tree)


def _served_class(tree: ast.Module) -> str | None:
    """The class that the file runs: `X.run_webserver()`."""
    called = (_dotted(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    served = {
        name.removesuffix(".run_webserver") for name in called if name and name.endswith(".run_webserver")
    }
    return served.pop() if len(served) == 1 else None


def _config_annotation(class_: ast.ClassDef) -> str | None:
    """The name of the type that the class gives its `config`."""
    for statement in class_.body:
        if isinstance(statement, ast.AnnAssign) and _dotted(statement.target) == "config":
            annotation = statement.annotation
            if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                return annotation.value
            name = _dotted(annotation)
            if name is None:
                raise _TrailLostError
            return name
    return None


def _own_fields(class_: ast.ClassDef) -> Iterator[str]:
    for statement in class_.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if "ClassVar" in ast.unparse(statement.annotation):
            continue
        yield statement.target.id
        yield from _aliases(statement)


def _aliases(statement: ast.AnnAssign) -> Iterator[str]:
    for call in ast.walk(statement):
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg in ("alias", "validation_alias"):
                if not isinstance(keyword.value, ast.Constant):
                    raise _TrailLostError
                yield str(keyword.value.value)


def _takes_anything(class_: ast.ClassDef) -> bool:
    """Whether the class accepts keys that it does not declare, or sees the keys before they are checked."""
    for node in ast.walk(class_):
        if isinstance(node, ast.keyword) and node.arg in ("extra", "alias_generator"):
            if not (isinstance(node.value, ast.Constant) and node.value.value in ("forbid", "ignore")):
                return True
        elif isinstance(node, ast.Call) and (_dotted(node.func) or "").endswith("model_validator"):
            if any(
                keyword.arg == "mode" and ast.unparse(keyword.value) != "'after'" for keyword in node.keywords
            ):
                return True
        elif isinstance(node, ast.Dict) and any(
            isinstance(key, ast.Constant) and key.value == "extra" for key in node.keys
        ):
            return True
    return False


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = _dotted(node.value)
        return f"{head}.{node.attr}" if head else None
    return None
