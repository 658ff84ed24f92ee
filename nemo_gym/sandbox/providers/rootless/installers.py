"""Stand-ins of apt-get and pip for images that are made without network: they say what is missing.

A program is installed under the names `apt`, `apt-get`, `pip` and `pip3` in the sandbox of a RUN line. It succeeds if
all that is asked for is installed already. Otherwise it fails, and adds the names to a list that the builder reads.
"""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

MISSING = "/.nemo_gym/missing"
_VALUE_OPTIONS = {
    "-i",
    "--index-url",
    "--extra-index-url",
    "-c",
    "--constraint",
    "-t",
    "-o",
    "-r",
    "--requirement",
}


def is_installed(kind: str, name: str) -> bool:
    """Return whether a package of Debian, or of Python, is there."""
    if kind == "apt":
        shown = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Status}", name.split("=")[0]],
            capture_output=True,
            text=True,
            check=False,
        )
        return "ok installed" in shown.stdout
    try:
        importlib.metadata.distribution(re.split(r"[<>=!~\[; ]", name)[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def main(program: str, arguments: list[str]) -> int:
    """Check one call, and return its exit status."""
    kind = "apt" if program.startswith("apt") else "pip"
    names, words = [], iter(arguments)
    for word in words:
        if word in _VALUE_OPTIONS:
            next(words, None)
        elif not word.startswith("-"):
            names.append(word)
    if names[:1] != ["install"]:
        return 0
    missing = [name for name in names[1:] if not is_installed(kind, name)]
    for name in missing:
        with Path(MISSING).open("a", encoding="utf-8") as file:
            file.write(f"{kind}: {name}\n")
        sys.stderr.write(f"{program}: {name} is not installed, and there is no network\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[0].rsplit("/", 1)[-1], sys.argv[1:]))
