"""Packages that are imported from texts, without files: how a repository is loaded to be judged.

The sandbox gets this file's text with the repository's source files, so it imports the standard library only. Nothing
but these texts can be imported beside the standard library: a file that an agent leaves is never looked at.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType


class TextFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of packages that are given as texts, by their paths."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {
            path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): (path, text)
            for path, text in files.items()
        }

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        is_package = self._files[fullname][0].endswith("/__init__.py")
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        path, text = self._files[module.__name__]
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)


def use(files: Mapping[str, str]) -> None:
    """Import packages from `files`, and forget those of the same names that were imported before."""
    sys.meta_path[:] = [
        TextFinder(files),
        *(finder for finder in sys.meta_path if type(finder).__name__ != TextFinder.__name__),
    ]
    packages = {path.partition("/")[0] for path in files}
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def call(name: str, *arguments: object) -> object:
    """Call a function by the path of its module, such as `ledger.money.split_evenly`."""
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(module), function)(*arguments)
