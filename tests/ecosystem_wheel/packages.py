"""An environment with a Python of the ecosystem's and the packages that its folders name.

All folders share one environment. A package that cannot join it is left out, and `left_out.json` in the cache keeps
the reason. Folders that need it are red for a named reason.
"""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tests.ecosystem_wheel import wheel

OLDEST_PYTHON = (3, 13)
ENVIRONMENT = wheel.CACHE / f"venv-{wheel.NEWEST}"
"""The packages of the newest version, which contain those of the older ones."""
AGENTS_ENVIRONMENT = wheel.CACHE / f"venv-agents-{wheel.NEWEST}"
LEFT_OUT = wheel.CACHE / f"left_out-{wheel.NEWEST}.json"
LONGEST_LIST = 100
"""A longer requirements file is the frozen environment of one server, which no other could share."""
TOO_LARGE = dict.fromkeys(
    ("bert-score", "torch", "torchvision", "transformers", "unbabel-comet", "vllm"),
    "gigabytes of machine-learning libraries",
)
UNUSED = frozenset({"mlflow", "mlflow-skinny", "mypy", "nemo-gym", "pre-commit", "ruff", "wandb"})
"""Packages of the wheel's own core that no folder imports."""
EXTRAS = ("", "dev", "sandbox")


def python() -> Path:
    """Return the environment's interpreter. Builds the environment if the cache does not have it."""
    interpreter = ENVIRONMENT / "bin" / "python"
    if not LEFT_OUT.is_file():
        if wheel.VERSION != wheel.NEWEST:
            sys.exit(f"{ENVIRONMENT} is needed; run the command without VERSION first")
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        subprocess.run([find_python(), "-m", "venv", str(ENVIRONMENT)], check=True)
        pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "uv"], check=True)
        LEFT_OUT.write_text(json.dumps(_install(interpreter), indent=2))
    return interpreter


def agents_python() -> Path:
    """Return an interpreter that has the shared packages and those that only agents need. Call `python` first."""
    interpreter = AGENTS_ENVIRONMENT / "bin" / "python"
    if not interpreter.is_file():
        uv = str(ENVIRONMENT / "bin" / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", python(), AGENTS_ENVIRONMENT], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(interpreter)]
        subprocess.run([*install, "verifiers==0.3.1"], check=True)
        # verifiers brings a version that the shared omegaconf cannot read its grammar with.
        subprocess.run([*install, "antlr4-python3-runtime==4.9.3"], check=True)
        [packages] = AGENTS_ENVIRONMENT.glob("lib/python3*/site-packages")
        [shared] = ENVIRONMENT.glob("lib/python3*/site-packages")
        (packages / "shared.pth").write_text(f"{shared}\n", encoding="utf-8")
    return interpreter


def left_out() -> dict[str, str]:
    """Return the packages that the environment lacks, with the reasons. Call `python` first."""
    packages: dict[str, str] = json.loads(LEFT_OUT.read_text(encoding="utf-8"))
    return packages


def find_python() -> str:
    """Return a Python of at least `OLDEST_PYTHON`: `PYTHON`, one of the search path, or one of pyenv's."""
    named = [os.environ.get("ECOSYSTEM_PYTHON"), *(f"python3.{minor}" for minor in range(13, 20))]
    paths = [path for name in named if name and (path := shutil.which(name))]
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    paths += [str(path) for path in sorted(versions.glob("3.*/bin/python3"))]
    for path in paths:
        check = f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
        if subprocess.run([path, "-c", check], check=False, capture_output=True).returncode == 0:
            return path
    wanted = ".".join(map(str, OLDEST_PYTHON))
    sys.exit(f"Python {wanted} or newer is needed; set ECOSYSTEM_PYTHON=/path/to/python3")


def _install(interpreter: Path) -> dict[str, str]:
    """Install as many packages as fit together, and return the others with the reason."""
    uv = [str(ENVIRONMENT / "bin" / "uv"), "pip", "install", "--python", str(interpreter), "--quiet"]
    core = _core()
    subprocess.run([*uv, *core], check=True)
    left_out = dict(TOO_LARGE)
    together = _fitting(uv, core, [name for name in _named_by_folders() if name not in left_out], left_out)
    subprocess.run([*uv, "--compile-bytecode", *core, *together], check=True)
    return left_out


def _fitting(
    uv: Sequence[str], taken: Sequence[str], names: Sequence[str], left_out: dict[str, str]
) -> list[str]:
    """Return the `names` that resolve together with `taken`, by halves; add the others to `left_out`."""
    done = subprocess.run([*uv, "--dry-run", *taken, *names], check=False, capture_output=True, text=True)
    if done.returncode == 0:
        return list(names)
    if len(names) == 1:
        left_out[names[0]] = " ".join(done.stderr.split())[:300]
        return []
    middle = len(names) // 2
    first = _fitting(uv, taken, names[:middle], left_out)
    return [*first, *_fitting(uv, [*taken, *first], names[middle:], left_out)]


def _core() -> list[str]:
    """Return the requirements of the wheel's core, and ours."""
    ours = subprocess.run(
        [sys.executable, "-c", "import importlib.metadata as m; print('\\n'.join(m.requires('nemo-gym')))"],
        check=True,
        capture_output=True,
        text=True,
    )
    theirs = email.message_from_string("\n".join(wheel.metadata())).get_all("Requires-Dist") or []
    return requirements_of(theirs, ours.stdout.splitlines())


def requirements_of(theirs: Iterable[str], ours: Iterable[str]) -> list[str]:
    """Return the requirements of both. Where both name a package, the folders need the versions of their own core."""
    wanted = [each for line in theirs if _applies(each := Requirement(line))]
    named = {canonicalize_name(each.name) for each in wanted}
    added = [each for line in ours if _applies(each := Requirement(line))]
    wanted += [each for each in added if canonicalize_name(each.name) not in named]
    return sorted({_without_marker(each) for each in wanted})


def _applies(requirement: Requirement) -> bool:
    marker = requirement.marker
    applies = marker is None or any(marker.evaluate({"extra": extra}) for extra in EXTRAS)
    return applies and requirement.name not in UNUSED


def _without_marker(requirement: Requirement) -> str:
    return str(requirement).partition(";")[0].strip()


def _named_by_folders() -> list[str]:
    """Return the packages that the folders' requirements name, without versions: all share one environment."""
    files = sorted(wheel.TREE.glob("*/*/requirements.txt")) + sorted(
        wheel.TREE.glob("*/*/*/requirements.txt")
    )
    lists = (file.read_text(encoding="utf-8").splitlines() for file in files)
    return sorted({name for lines in lists if len(lines) <= LONGEST_LIST for name in _names(lines)})


def _names(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        try:
            requirement = Requirement(line.partition(" #")[0].strip())
        except InvalidRequirement:
            continue  # an option, a comment, or a path or URL without a name
        if requirement.url is None and requirement.name not in UNUSED:
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            yield requirement.name.lower().replace("_", "-") + extras
