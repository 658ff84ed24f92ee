"""The model roles that the source of a task names, such as the grader of its scorer.

Inspect gives a role that has no model the model under evaluation. A role that is known beforehand gets a model of its
own instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


def find_model_roles(files: Iterable[Path]) -> list[str]:
    """Return the roles in calls such as `get_model(role="user")` and `model_graded_qa(model_role="judge")`."""
    roles: set[str] = set()
    for file in files:
        try:
            tree = ast.parse(file.read_bytes())
        except SyntaxError:  # a file that no task imports, such as one of Python 2
            continue
        roles.update(_list_roles(tree))
    return sorted(roles)


def _list_roles(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for keyword in node.keywords:
            is_role = keyword.arg == "model_role" or (keyword.arg == "role" and name == "get_model")
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if is_role and isinstance(value, str):
                yield value
