"""Imports of every pytest run, plugins included, for the fork server of test runs."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module, metadata

_PLUGINS = [plugin.module for plugin in metadata.entry_points(group="pytest11")]

for _name in ("pytest", *_PLUGINS, "hypothesis", "fastapi.testclient", "nemo_gym.launch._preload"):
    with suppress(ImportError):  # the run reports the error
        import_module(_name)
