"""Imports what every run of pytest imports, its plugins included. Loaded by the process that runs are forked from."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module, metadata

_PLUGINS = [plugin.module for plugin in metadata.entry_points(group="pytest11")]

for _name in ("pytest", *_PLUGINS, "hypothesis", "fastapi.testclient", "nemo_gym.launch._preload"):
    with suppress(ImportError):  # the run itself will say what is wrong with it
        import_module(_name)
