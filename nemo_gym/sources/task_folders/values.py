"""The forms of the texts in `task.toml`, checked as the format's own loader checks them. All raise ValueError."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from pathlib import PurePosixPath

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SERVICE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_WHOLE_VARIABLE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SECRET = re.compile(r"KEY|SECRET|TOKEN(?!S)|PASSWORD|CREDENTIAL|AUTH", re.IGNORECASE)
_REFERENCE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}"
_CREDENTIAL = re.compile(rf"\s*(?:[A-Za-z]+\s+)?{_REFERENCE}(?:[\s:-]*{_REFERENCE})*\s*")
_NOT_PORTABLE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])", re.IGNORECASE)
_TOPOLOGY = re.compile(r"[1-9]\d*(x[1-9]\d*)+")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_SIZES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_LONGEST_NAME = 255
_NOT_A_HOST = (
    "allowed_hosts takes host names, IP addresses and CIDR ranges, without URLs, ports or paths, not"
)


def check_host(host: str) -> str:
    """Return a host of `allowed_hosts` in its plain form: a name, `*.name`, an IP address or a CIDR range."""
    host = host.strip().lower().rstrip(".")
    if not host:
        raise ValueError("allowed_hosts must not have an empty host")
    if "/" in host or ":" in host:
        try:
            found = ip_network(host) if "/" in host else ip_address(host)
        except ValueError as error:
            raise ValueError(f"{_NOT_A_HOST} {host!r}") from error
        if "%" in host:
            raise ValueError(f"{_NOT_A_HOST} {host!r}")
        return found.compressed
    name = host[2:] if host.startswith("*.") else host
    if "*" in name or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{_NOT_A_HOST} {host!r}")
    if name != host and _is_address(name):
        raise ValueError(f"a wildcard of allowed_hosts names hosts, not the address {name}")
    return host


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def check_service(service: str | None) -> str | None:
    """Return the name of a Compose service."""
    if service is None:
        return None
    service = service.strip()
    if not _SERVICE.fullmatch(service):
        raise ValueError(f"{service!r} is not the name of a Compose service")
    return service


def check_step_name(name: str) -> str:
    """Return the name of a step, which is the name of a folder on every system."""
    is_portable = bool(name.strip()) and name not in {".", ".."} and not name.endswith((".", " "))
    is_device = _DEVICE.fullmatch(name.partition(".")[0].rstrip(" "))
    if not is_portable or is_device or _NOT_PORTABLE.search(name) or len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"{name!r} cannot be the name of a folder on every system")
    return name


def fold_step_name(name: str) -> str:
    """Return the form in which file systems may compare the name of a step."""
    return unicodedata.normalize("NFC", name).casefold()


def check_source(source: str) -> str:
    """Return the path of an artifact in the sandbox."""
    if ".." in PurePosixPath(source).parts:
        raise ValueError(f"the source of an artifact must not contain '..': {source!r}")
    return source


def check_destination(destination: str | None) -> str | None:
    """Return the path of an artifact below `artifacts/`."""
    if not destination:
        return None
    path = PurePosixPath(destination)
    if "\\" in destination or path.is_absolute() or not path.parts or ".." in path.parts:
        raise ValueError(f"the destination of an artifact must be a plain relative path, not {destination!r}")
    if destination.rstrip("/") == "manifest.json":
        raise ValueError("the destination manifest.json is reserved for the list of artifacts")
    return destination


def is_absolute(path: str) -> bool:
    """Return whether a path in a sandbox is absolute, on Linux or Windows."""
    return path.startswith("/") or _DRIVE.match(path) is not None


def check_header(name: str, value: str) -> None:
    """Check a header of an MCP server: it must not contain a credential, only the variable that supplies it."""
    if not _HEADER.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of an HTTP header")
    if "\r" in value or "\n" in value:
        raise ValueError(f"the HTTP header {name!r} must not have several lines")
    templates = _VARIABLE.findall(value)
    if "${" in _VARIABLE.sub(" ", value) or any("${" in default for _, default in templates):
        raise ValueError(f"the HTTP header {name!r} has an invalid reference to a variable")
    is_secret = bool(_SECRET.search(name)) or name.lower() in {"cookie", "set-cookie"}
    has_default = any(default and (is_secret or _SECRET.search(variable)) for variable, default in templates)
    if has_default or (is_secret and value.strip() and not _CREDENTIAL.fullmatch(value)):
        raise ValueError(
            f"the HTTP header {name!r} must name its credential as ${{VARIABLE}}, without a default"
        )


def check_topology(topology: str) -> str:
    """Return the topology of a TPU, such as `2x2x1`."""
    if not _TOPOLOGY.fullmatch(topology.strip()):
        raise ValueError(f"{topology!r} is not a topology, such as '2x2x1'")
    return topology.strip()


def parse_size(text: str) -> int:
    """Return the mebibytes of an old size, such as `2G`."""
    text = text.strip().upper()
    if text[-1:] not in _SIZES:
        raise ValueError(f"{text!r} is not a size, such as '1G' or '512M'")
    return int(float(text[:-1]) * _SIZES[text[-1]])


def find_host_variables(env: Mapping[str, str]) -> dict[str, str | None]:
    """Return the host's variables that values name as `${NAME}` or `${NAME:-default}`, with their defaults."""
    matches = [_WHOLE_VARIABLE.fullmatch(value) for value in env.values()]
    return {match[1]: match[2] for match in matches if match is not None}


def fill_variables(env: Mapping[str, str], read: Callable[[str], str | None]) -> dict[str, str]:
    """Return variables with their references to the host's filled by `read`. Raises ValueError for a missing one."""
    filled = {}
    for name, value in env.items():
        match = _WHOLE_VARIABLE.fullmatch(value)
        found = value if match is None else read(match[1])
        if match is not None and found is None:
            found = match[2]
        if found is None:
            raise ValueError(
                f"{name} needs the variable {value} of this machine, which is not allowed or not set"
            )
        filled[name] = found
    return filled
