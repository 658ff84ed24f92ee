"""The installed package of an environment: its version, its licence, and a digest of its files."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

_VARIES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def describe_package(name: str) -> dict[str, str | None]:
    """Return `package`, `package_version`, `license` and `source` of an installed distribution."""
    about: Any = metadata.metadata(name)
    licence = about.get("License-Expression") or about.get("License") or None
    pages = dict(each.split(", ", 1) for each in about.get_all("Project-URL") or () if ", " in each)
    source = next((pages[key] for key in pages if key.lower() in ("repository", "source", "homepage")), None)
    return {
        "package": about["Name"],
        "package_version": about["Version"],
        "license": None if licence is None else licence.splitlines()[0][:100],
        "source": source or about.get("Home-page") or f"https://pypi.org/project/{about['Name']}/",
    }


def compute_digest(packages: list[str], folder: Path | None, options: dict[str, Any]) -> str:
    """Return a digest of the files of installed packages and of a folder, and of an environment's options."""
    parts = [json.dumps(options, sort_keys=True)]
    for name in packages:
        for line in sorted((metadata.distribution(name).read_text("RECORD") or "").splitlines()):
            path = line.split(",")[0]
            if not path.endswith(".pyc") and Path(path).name not in _VARIES and not path.startswith(".."):
                parts.append(line)
    if folder is not None:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.suffix != ".pyc" and ".egg-info" not in str(file):
                parts.append(f"{file.relative_to(folder)} {hashlib.sha256(file.read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
