"""Images made of a Dockerfile, line by line, each line applied once.

The key of a line is a hash of all lines before it, of its own text and surroundings, and of the files that it copies.
A line is applied in a sandbox of the image so far; the files that it changed become a layer.
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import io
import json
import posixpath
import shlex
import ssl
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.providers.rootless import installers
from nemo_gym.sandbox.providers.rootless.debian import SUITE, find_base_problem, name_base
from nemo_gym.sandbox.providers.rootless.dockerfile import (
    Instruction,
    UnsupportedLine,
    expand_variables,
    parse_assignments,
    parse_dockerfile,
)
from nemo_gym.sandbox.providers.rootless.launch import BRIDGE, SandboxShape
from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider, RootlessSandbox
from nemo_gym.sandbox.providers.rootless.store import DEFAULT_PATH, Image
from nemo_gym.sandbox.providers.specification import SandboxExecResult

_REPORTED_CHARS = 1500
_SHORT_S = 60.0
_INSTALLERS = Path(installers.__file__).read_bytes()
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_CERTIFICATE_VARIABLES = (
    "SSL_CERT_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)
_SHIMS = ("apt", "apt-get", "pip", "pip3")
_UNPACK_ONE = (
    'n={name}; t={target}; if [ -d "$t" ]; then tar -xf - -C "$t" --no-same-owner; else d=$(mktemp -d) && '
    'mkdir -p "$(dirname "$t")" && tar -xf - -C "$d" --no-same-owner && mv "$d/$n" "$t" && rmdir "$d"; fi'
)
_CLEAN = "rm -rf /.nemo_gym/missing {shims}; rmdir /.nemo_gym 2>/dev/null; true"


class ImageError(ConfigError):
    """An image that cannot be made, with the line that is at fault."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The surroundings of a build."""

    has_network: bool = False
    """False replaces apt and pip by programs that say what is missing."""
    timeout_s: float = 600.0
    packages: Sequence[str] = ()
    """Packages of the base system beside the default ones."""


@dataclass(slots=True)
class _State:
    """The image so far."""

    image: Image
    key: str
    arguments: dict[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        return {**self.arguments, **self.image.env}

    def advance(self, *parts: str) -> None:
        self.key = hashlib.sha256(json.dumps([self.key, *parts]).encode()).hexdigest()[:24]


def check_dockerfile(context: Path) -> list[str]:
    """Return the reasons why no image can be made here of a folder with a Dockerfile; none if one can."""
    try:
        text = (context / "Dockerfile").read_text(encoding="utf-8", errors="replace")
        instructions = parse_dockerfile(text)
    except UnsupportedLine as error:
        return [str(error)]
    arguments = _read_defaults(instructions)
    problem = find_base_problem(_read_base(instructions, arguments))
    return [*([] if problem is None else [problem]), *_find_missing_files(context, instructions)]


def _find_missing_files(context: Path, instructions: Sequence[Instruction]) -> Iterator[str]:
    """Yield a problem for each line that copies what is not there, or that cannot be read."""
    state = _State(_begin_image("", ""), "")
    for each in instructions:
        try:
            if each.name in ("ENV", "ARG"):
                _set_variables(state, each)
            elif each.name in ("COPY", "ADD"):
                _list_copied(context, each, expand_variables(each.value, state.variables))
        except (ValueError, OSError) as error:
            yield f"line {each.line}: {error}"


async def build_image(provider: RootlessProvider, context: Path, options: BuildOptions) -> str:
    """Make the image of a folder with a Dockerfile, unless it is there, and return its id. Raises ImageError."""
    try:
        instructions = parse_dockerfile((context / "Dockerfile").read_text(encoding="utf-8"))
    except (UnsupportedLine, OSError, UnicodeError) as error:
        raise _fail(context, str(error)) from error
    state = _begin(provider, instructions, options, context)
    for instruction in instructions:
        try:
            await _apply(provider, state, instruction, context, options)
        except (ValueError, OSError) as error:
            raise _fail(context, f"line {instruction.line}: {error}") from error
    state.advance("image", json.dumps(asdict(state.image)))  # variables after the last layer, too
    provider.store.add(state.key, state.image)
    return state.key


def _begin(
    provider: RootlessProvider, instructions: Sequence[Instruction], options: BuildOptions, context: Path
) -> _State:
    base = name_base(options.packages)
    if not provider.store.layer(base).is_dir():
        raise ConfigError(
            "The base system of images is not installed on this machine.",
            code="sandbox_unavailable",
            remedy="Run `gym env prefetch` once, with network.",
        )
    name = _read_base(instructions, _read_defaults(instructions))
    if (problem := find_base_problem(name)) is not None:
        raise _fail(context, problem)
    # An image that was made with network is the same without: what installs something then names it.
    return _State(_begin_image(base, name), f"{base}|{name}")


def _begin_image(base: str, name: str) -> Image:
    # The base system refuses pip outside of a venv; the systems that it stands for do not.
    env = {"PATH": DEFAULT_PATH, "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    return Image((base,), f"debian:{SUITE} ({base}) for {name}", env)


def _read_defaults(instructions: Sequence[Instruction]) -> dict[str, str]:
    arguments = {}
    for each in instructions:
        if each.name == "FROM":
            break
        if each.name == "ARG":
            name, _, value = each.value.partition("=")
            arguments[name] = value
    return arguments


def _read_base(instructions: Sequence[Instruction], arguments: dict[str, str]) -> str:
    value = next(each.value for each in instructions if each.name == "FROM")
    words = [word for word in expand_variables(value, arguments).split() if not word.startswith("--")]
    return words[0] if words else ""


async def _apply(
    provider: RootlessProvider, state: _State, instruction: Instruction, context: Path, options: BuildOptions
) -> None:
    image, value = state.image, instruction.value
    expanded = expand_variables(value, state.variables)
    if instruction.name in ("ENV", "ARG"):
        _set_variables(state, instruction)
    elif instruction.name == "USER":
        state.image = replace(image, user=expanded)
    elif instruction.name == "ENTRYPOINT":
        words = instruction.words() if value.startswith("[") else ["/bin/sh", "-c", value]
        state.image = replace(image, entrypoint=tuple(words))
    elif instruction.name == "WORKDIR":
        folder = posixpath.normpath(posixpath.join(image.workdir, expanded))
        await _run_line(provider, state, instruction, f"mkdir -p -- {shlex.quote(folder)}", options)
        state.image = replace(state.image, workdir=folder)
    elif instruction.name == "RUN":
        script = shlex.join(instruction.words()) if value.startswith("[") else value
        await _run_line(provider, state, instruction, script, options)
    elif instruction.name in ("COPY", "ADD"):
        packed, script = await asyncio.to_thread(_pack, context, instruction, expanded, image.workdir)
        await _run_line(provider, state, instruction, script, options, packed)


def _set_variables(state: _State, instruction: Instruction) -> None:
    """Apply an ENV or ARG line."""
    value = instruction.value
    if instruction.name == "ENV":
        pairs = {
            name: expand_variables(text, state.variables) for name, text in parse_assignments(value).items()
        }
        state.image = replace(state.image, env={**state.image.env, **pairs})
    else:
        name, _, default = value.partition("=")
        state.arguments.setdefault(name, expand_variables(default.strip("\"'"), state.variables))


async def _run_line(
    provider: RootlessProvider,
    state: _State,
    instruction: Instruction,
    script: str,
    options: BuildOptions,
    data: bytes = b"",
) -> None:
    image = state.image
    # Only instructions of the author may need packages, and only they run as the image's user.
    is_own = instruction.name == "RUN"
    environment = {**state.arguments, **image.env}
    state.advance(
        script, hashlib.sha256(data).hexdigest(), json.dumps([environment, image.workdir, image.user])
    )
    layer = state.key
    if not provider.store.layer(layer).is_dir():
        shape = SandboxShape(image.layers, has_network=is_own and options.has_network)
        sandbox = await provider.start(shape, image, env=environment)
        try:
            if is_own and not options.has_network:
                await _put_installers(provider, sandbox)
            env = _show_certificates(sandbox) if shape.has_network else {}
            await _run_in(provider, sandbox, script, data, "root" if not is_own else None, options, env)
            await _clean(provider, sandbox, has_shims=is_own and not options.has_network)
            await provider.end_processes(sandbox)
            provider.store.keep_layer(layer, sandbox.places.upper)
        finally:
            await provider.end_processes(sandbox)
            await asyncio.to_thread(sandbox.places.remove)
    state.image = replace(image, layers=(*image.layers, layer))


async def _run_in(
    provider: RootlessProvider,
    sandbox: RootlessSandbox,
    script: str,
    data: bytes,
    user: str | None,
    options: BuildOptions,
    env: Mapping[str, str],
) -> None:
    done = await provider.run(
        sandbox, ["/bin/sh", "-c", script], timeout_s=options.timeout_s, user=user, stdin=data, env=env
    )
    listed = await _run_as_root(provider, sandbox, f"cat {installers.MISSING} 2>/dev/null")
    if missing := sorted(set((listed.stdout or "").split("\n")) - {""}):
        raise ValueError(f"without network, these packages are missing: {', '.join(missing)}")
    if done.return_code != 0:
        said = f"{done.stdout}{done.stderr}".strip()[-_REPORTED_CHARS:]
        how = done.error_type or f"ended with status {done.return_code}"
        raise ValueError(f"{script[:200]!r} {how}: {said}")


def _show_certificates(sandbox: RootlessSandbox) -> dict[str, str]:
    """Show the authorities that this machine trusts, which its network may need; return variables that name them."""
    trusted = Path(ssl.get_default_verify_paths().cafile or _CERTIFICATES)
    if not trusted.is_file():
        return {}
    (sandbox.places.bridge / _CERTIFICATES.name).write_bytes(trusted.read_bytes())
    return dict.fromkeys(_CERTIFICATE_VARIABLES, str(BRIDGE / _CERTIFICATES.name))


async def _put_installers(provider: RootlessProvider, sandbox: RootlessSandbox) -> None:
    script = "".join(f"install -m 755 /dev/stdin /usr/local/sbin/{name} < /tmp/.shim; " for name in _SHIMS)
    program = b"#!/usr/bin/python3\n" + _INSTALLERS
    done = await _run_as_root(provider, sandbox, f"cat > /tmp/.shim; {script} rm /tmp/.shim", program)
    if done.return_code != 0:
        raise OSError(f"the stand-ins of apt and pip could not be written: {done.stderr}")


async def _clean(provider: RootlessProvider, sandbox: RootlessSandbox, *, has_shims: bool) -> None:
    shims = " ".join(f"/usr/local/sbin/{name}" for name in _SHIMS) if has_shims else ""
    await _run_as_root(provider, sandbox, _CLEAN.format(shims=shims))


async def _run_as_root(
    provider: RootlessProvider, sandbox: RootlessSandbox, script: str, stdin: bytes = b""
) -> SandboxExecResult:
    program = ["/bin/sh", "-c", script]
    return await provider.run(sandbox, program, timeout_s=_SHORT_S, user="root", cwd="/", stdin=stdin)


def _pack(context: Path, instruction: Instruction, expanded: str, workdir: str) -> tuple[bytes, str]:
    """Return the files of a COPY line as a tar, and the script that unpacks it.

    Raises ValueError for a source that is missing.
    """
    found, target = _list_copied(context, instruction, expanded)
    is_open = len(found) == 1 and not found[0].is_dir() and not target.endswith("/")
    place = posixpath.normpath(posixpath.join(workdir, target)).lstrip("/")
    mode = int(instruction.options["chmod"], 8) if "chmod" in instruction.options else None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in found:
            name = path.name if is_open else place if path.is_dir() else posixpath.join(place, path.name)
            for file in _walk(path):
                inner = posixpath.normpath(posixpath.join(name, file.relative_to(path).as_posix()))
                _add(tar, file, inner, mode)
    if is_open:  # the target is the file's place, or an existing folder for it
        return buffer.getvalue(), _UNPACK_ONE.format(
            name=shlex.quote(found[0].name), target=shlex.quote(f"/{place}")
        )
    return buffer.getvalue(), "tar -xf - -C / --no-same-owner"


def _list_copied(context: Path, instruction: Instruction, expanded: str) -> tuple[list[Path], str]:
    """Return the sources of a COPY line, and its destination. Raises ValueError for a source that is missing."""
    words = replace(instruction, value=expanded).words()
    if len(words) < 2:
        raise ValueError(f"{instruction.name} needs a source and a destination")
    *sources, target = words
    return [path for source in sources for path in _find_sources(context, source)], target


def _find_sources(context: Path, source: str) -> list[Path]:
    root, pattern = context.resolve(), posixpath.normpath(source.lstrip("/"))
    if pattern.startswith(".."):
        raise ValueError(f"{source!r} lies outside of the folder of the Dockerfile")
    if pattern == ".":
        return [root]
    found = sorted(root.glob(pattern)) if any(mark in pattern for mark in "*?[") else [root / pattern]
    found = [path for path in found if path.exists()]
    if not found:
        raise ValueError(f"{source!r} is not in the folder of the Dockerfile")
    if any(not path.resolve().is_relative_to(root) for path in found):
        raise ValueError(f"{source!r} leads outside of the folder of the Dockerfile")
    return found


def _walk(path: Path) -> Iterator[Path]:
    """Yield a file, or a folder and all in it, without what its `.dockerignore` names."""
    yield path
    if not path.is_dir() or path.is_symlink():
        return
    ignored = path / ".dockerignore"
    patterns = ignored.read_text(encoding="utf-8").split("\n") if ignored.is_file() else []
    excluded = [
        line.strip().strip("/") for line in patterns if line.strip() and not line.startswith(("#", "!"))
    ]
    for file in sorted(path.rglob("*")):
        relative = file.relative_to(path).as_posix()
        if not any(fnmatch.fnmatch(relative, each) or relative.startswith(f"{each}/") for each in excluded):
            yield file


def _add(tar: tarfile.TarFile, file: Path, name: str, mode: int | None) -> None:
    info = tar.gettarinfo(file, name)
    if not (info.isreg() or info.isdir() or info.issym()):
        raise ValueError(f"{file} is no file, folder or link")
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    if info.isdir():
        info.mode = 0o755
    elif mode is not None:
        info.mode = mode
    if info.isreg():
        with file.open("rb") as content:
            tar.addfile(info, content)
    else:
        tar.addfile(info)


def _fail(context: Path, why: str) -> ImageError:
    return ImageError(
        f"No image can be made of {context / 'Dockerfile'}: {why}.",
        code="image_unsupported",
        remedy="Set `docker_image` and use docker or podman (`+sandbox_provider=docker`), or change the lines.",
    )
