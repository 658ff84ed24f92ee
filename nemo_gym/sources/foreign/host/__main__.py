"""Starts the host of a kind: `python __main__.py KIND BEAT_S`. KIND is a name, or the path of a module."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path


def load_own_package() -> None:
    """Make the modules beside this file a package, without a folder in the path that could shadow others."""
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "gym_host", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["gym_host"] = package
    spec.loader.exec_module(package)


def main(kind: str, beat_s: str) -> None:
    load_own_package()
    channel = importlib.import_module("gym_host.channel").HostChannel.take_standard_streams()
    channel.beat(float(beat_s))
    if not os.access(".", os.W_OK):  # environments write where they are started
        os.chdir(os.environ["HOME"])
    status = 1
    try:
        importlib.import_module("gym_host.serving").serve(channel, kind)
        status = 0
    except BaseException:  # noqa: BLE001 - the end of the program is below
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)  # threads of an environment must not keep the program


if __name__ == "__main__":
    main(*sys.argv[1:])
