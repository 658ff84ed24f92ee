"""The gym's Python interpreter as files that are mounted into any image.

The gym's programs in a sandbox are Python, and an image need not have Python, nor the C library of this machine. So
the loader, the libraries, the interpreter and its standard library are all this machine's, below a folder of their own.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.failures import ConfigError
from nemo_gym.isolation.python_installation import PythonInstallation

__all__ = ["PortablePython"]

PLACE = Path("/.nemo_gym")
"""The folder of the mounts in a container."""
_LOADER = PLACE / "loader"
_LIBRARIES = PLACE / "libraries"
_FLAGS = ("-I", "-S", "-B", "-X", "utf8")
_LIBRARY = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x", re.MULTILINE)
_SHORT_S = 60.0
_LONGEST_LOADER = 256


@dataclass(frozen=True, slots=True)
class PortablePython:
    """An interpreter with its standard library, which needs nothing of the image."""

    mounts: tuple[tuple[Path, Path], ...]
    """Files and folders of this machine, and their places in a container."""
    start: tuple[str, ...]
    """The beginning of a command in a container."""

    @classmethod
    def of_the_gym(cls, *, open_to_others: bool = False) -> PortablePython:
        """Return the interpreter that runs the gym; with `open_to_others`, one that every user can read.

        Raises ConfigError if its parts are not found, and OSError if it cannot be copied for other users.
        """
        installed = PythonInstallation.from_gym()
        executable, home = Path(installed.executable), Path(sysconfig.get_config_var("installed_base"))
        library = Path(sysconfig.get_path("stdlib"))
        if open_to_others and (copy := installed.find_open_copy()) is not None:
            library, home = copy / library.relative_to(home), copy
            executable = copy / "bin" / executable.name
        python = PLACE / "bin" / executable.name
        mounts = [(executable, python), (library, PLACE / library.relative_to(home))]
        loader = loader_of(executable)
        if loader is None:  # linked statically
            return cls(tuple(mounts), (str(python), *_FLAGS))
        mounts += [(loader, _LOADER), *_libraries_of(executable, loader, home / "lib")]
        start = (str(_LOADER), "--library-path", str(_LIBRARIES), str(python), *_FLAGS)
        return cls(tuple(mounts), start)

    def command(self, source: str) -> list[str]:
        """The command that runs a program."""
        return [*self.start, "-c", source]


def loader_of(executable: Path) -> Path | None:
    """The program that loads `executable`, as its header names it; None if it needs none."""
    with executable.open("rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            raise _unusable(f"{executable} is no 64-bit program of Linux")
        table, size = int.from_bytes(header[32:40], "little"), int.from_bytes(header[54:56], "little")
        count = int.from_bytes(header[56:58], "little")
        for number in range(count):
            file.seek(table + number * size)
            entry = file.read(size)
            if int.from_bytes(entry[:4], "little") == 3:  # PT_INTERP
                file.seek(int.from_bytes(entry[8:16], "little"))
                return Path(file.read(_LONGEST_LOADER).split(b"\0", 1)[0].decode())
    return None


def _libraries_of(executable: Path, loader: Path, own: Path) -> Iterator[tuple[Path, Path]]:
    try:
        done = subprocess.run(
            [loader, "--library-path", own, "--list", executable],
            capture_output=True,
            text=True,
            timeout=_SHORT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _unusable(f"{loader} does not list the libraries of {executable}: {error}") from error
    for name, file in _LIBRARY.findall(done.stdout):
        if name:
            yield Path(file), _LIBRARIES / name


def _unusable(reason: str) -> ConfigError:
    return ConfigError(
        f"The gym's Python cannot be mounted into containers: {reason}.",
        code="sandbox_unavailable",
        remedy="Run the gym on Linux with Python of the system, or take `sandbox_provider` out for bubblewrap.",
    )
