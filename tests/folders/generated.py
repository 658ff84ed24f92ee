"""Task folders drawn at random: every field of the format, right and wrong, and files that are missing or odd."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
DRAW_FIELDS: dict[str, tuple[list[Any], list[Any]]] = {
    # field: (right values, wrong values)
    "schema_version": (["1.4", "1.1", "1.0"], [1.4, True]),
    "version": (["1.0"], []),
    "source": (["corpus"], [5]),
    "unknown_key": ([1, {"a": 1}], []),
    "metadata": ([{}, {"license": "MIT", "difficulty": 3}], ["text", []]),
    "task.name": (["org/name", "A1/b.c_d-e"], ["name", "org/", "/x", "org/na..me", "org/a b", 7]),
    "task.version": (["1.2.3", "x"], ["", 3]),
    "task.description": (["about"], [4]),
    "task.authors": (
        [[{"name": "A"}], [{"name": "A", "email": "a@b.c"}]],
        [[{"email": "a"}], ["A"], {"name": "A"}],
    ),
    "task.keywords": ([["a", "b"]], ["a", [1]]),
    "agent.timeout_sec": ([60.0, 5, "30"], ["soon", [], "x"]),
    "agent.user": (["root", "user", 0, 1000, "1000:1000"], [[1], {"a": 1}]),
    "agent.network_mode": (["public", "no-network"], ["none", 3]),
    "agent.allowed_hosts": ([], [["x.org"]]),
    "agent.timeout": ([3], []),
    "verifier.timeout_sec": ([1.5, 600], ["x", [1]]),
    "verifier.env": ([{"A": "1", "B": "${HOME}", "C": "${NO_SUCH:-x}"}], [{"A": 1}, ["A"], "A=1"]),
    "verifier.user": (["root", 0], [[0]]),
    "verifier.environment_mode": (["shared", "separate"], ["both", 1]),
    "verifier.environment": (
        [{}, {"docker_image": "x:1"}, {"os": "linux"}, {"memory": "1G"}],
        ["x", {"os": "mac"}],
    ),
    "verifier.collect": (
        [[{"command": "true"}], [{"command": "x", "service": "db", "timeout_sec": 5, "user": "root"}]],
        [[{"service": "db"}], [{"command": "x", "service": "-db"}], {"command": "x"}],
    ),
    "verifier.network_mode": (["public"], ["all"]),
    "environment.network_mode": (["public", "no-network"], ["off", False]),
    "environment.allowed_hosts": ([], [["example.org"]]),
    "environment.docker_image": (["ubuntu:22.04", "a@sha256:" + "0" * 64], [5]),
    "environment.os": (["linux", "Linux", "LINUX"], ["bsd", 1]),
    "environment.workdir": (["/app"], [1]),
    "environment.skills_dir": (["/skills"], [[]]),
    "environment.build_timeout_sec": ([60, 60.5], ["x"]),
    "environment.cpus": ([1, 2, 0.5, 2.0], ["many", math.inf, math.nan, []]),
    "environment.memory_mb": ([2048, 512.0], ["2G", 1.5]),
    "environment.memory": (["2G", "512M", "1.5g", 5], ["2X", "", "G"]),
    "environment.storage": (["10G", "100K"], ["x"]),
    "environment.storage_mb": ([100], [[]]),
    "environment.gpus": ([0, 1], ["one"]),
    "environment.gpu_types": ([["H100"]], ["H100"]),
    "environment.tpu": (
        [{"type": "v6e", "topology": "2x4"}],
        [{"type": "v6e", "topology": "2"}, {"topology": "2x2"}, "v6e"],
    ),
    "environment.env": ([{"A": "b"}, {"A": "${B}"}], [{"A": 1}, [1]]),
    "environment.allow_internet": ([True, False], ["maybe", 3]),
    "environment.unknown": ([1], []),
    "environment.mcp_servers": (
        [
            [{"name": "a", "url": "http://x"}],
            [{"name": "a", "transport": "http", "url": "http://x", "headers": {"X-Key": "Bearer ${TOKEN}"}}],
            [{"name": "a", "transport": "stdio", "command": "run", "args": ["-x"]}],
            [{"name": "a", "transport": "streamable-http", "url": "u", "headers": {"Accept": "text"}}],
        ],
        [
            [{"name": "a"}],
            [{"name": "a", "transport": "stdio"}],
            [{"name": "a", "transport": "stdio", "command": "x", "headers": {"A": "b"}}],
            [{"name": "a", "url": "u", "headers": {"Authorization": "Bearer abc"}}],
            [{"name": "a", "url": "u", "headers": {"A b": "x"}}],
            [{"name": "a", "url": "u", "headers": {"A": "${X"}}],
            [{"name": "a", "url": "u", "headers": {"X-Token": "${T:-default}"}}],
            [{"name": "a", "transport": "ws", "url": "u"}],
            {"name": "a"},
        ],
    ),
    "environment.healthcheck": (
        [
            {"command": "true"},
            {"command": "x", "interval_sec": 1, "timeout_sec": 2, "start_period_sec": 3, "retries": 1},
        ],
        [{}, {"command": 3}, {"command": "x", "retries": 1.5}, "true"],
    ),
    "solution.env": ([{"A": "1"}], [{"A": 2}]),
    "artifacts": (
        [
            ["/var/log/x"],
            [{"source": "/a", "destination": "b/c", "exclude": ["*.o"]}],
            ["/a", "/a/b"],
            [{"source": "/a", "destination": "d"}, {"source": "/b", "destination": "d"}],
            ["/logs/verifier/x"],
            ["/logs/artifacts"],
            [{"source": "/x", "service": "main"}],
            [{"source": "/x", "destination": ""}],
        ],
        [
            ["/a/../b"],
            [{"source": "/a", "destination": "/b"}],
            [{"source": "/a", "destination": "../b"}],
            [{"source": "/a", "destination": "manifest.json"}],
            [{"source": "/a", "destination": "a\\b"}],
            [{"source": "x", "service": "db"}],
            [{"destination": "b"}],
            [5],
            "x",
        ],
    ),
    "multi_step_reward_strategy": (["mean", "final"], ["last", 1]),
}
HOSTS = (
    [
        ["example.org"],
        ["*.example.org", "10.0.0.1"],
        ["10.0.0.0/8"],
        ["::1", "fe80::/10"],
        ["EXAMPLE.org."],
        [],
    ],
    [
        ["http://x.org"],
        ["x.org:80"],
        ["*"],
        ["a.*.org"],
        ["*.10.0.0.1"],
        ["10.0.0.1/8"],
        [""],
        ["-x.org"],
        ["a/b"],
        "x.org",
    ],
)
STEPS = (
    [
        [{"name": "one"}],
        [{"name": "one", "min_reward": 0.5}, {"name": "two", "min_reward": {"a": 1}}],
        [
            {
                "name": "one",
                "agent": {"timeout_sec": 5, "user": "u"},
                "verifier": {"environment_mode": "separate"},
            }
        ],
        [{"name": "one", "healthcheck": {"command": "true"}, "artifacts": ["/x"]}],
    ],
    [
        [{"name": "../x"}],
        [{"name": "one"}, {"name": "ONE"}],
        [{"name": "CON"}],
        [{"name": "a."}],
        [{"name": ""}],
        [{"min_reward": 1}],
        [{"name": "one", "min_reward": "high"}],
        [{"name": "one", "artifacts": ["../x"]}],
    ],
)
SCRIPTS = [
    "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
    "#!/bin/bash\npip install pytest\ncurl -o x https://example.org/x\n",
    "pip install 'pytest==8.0.0' numpy>=1 \\\n  pandas\nwget https://example.org/a.tgz\n",
    "uvx --with pytest==8.4.1 pytest && curl -LsSf https://x.org/i.sh | sh\n",
    "cat <<EOF\npip install torch\nEOF\ngit clone https://github.com/a/b\n",
    "python3 -m pip install -r requirements.txt; uv pip install -e ./x 'a @ git+https://x.org/a'\n",
    "curl http://localhost:80/x -o y; curl -s https://x.org > out; curl --spider https://x.org\n",
]
DOCKERFILES = [
    "FROM ubuntu:22.04\n",
    "FROM a@sha256:" + "0" * 64 + "\nRUN pip install requests\n",
    "FROM ubuntu AS base\nFROM base\nCOPY --chown=1 tests/test.sh /x\n",
    'FROM scratch\nCOPY ["solution/solve.sh", "/s"]\nRUN ["pip", "install", "x"]\nADD tests/test_a.py /t\n',
    "FROM $BASE\nRUN --mount=type=cache,target=/x pip install -c c.txt a && \\\n  uv tool install b\n# RUN pip x\n",
]


def _dump(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_dump(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dump, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value)


def _write_settings(settings: Settings) -> str:
    top = "".join(f"{key} = {_dump(value)}\n" for key, value in settings.items() if not key.startswith("["))
    tables = "".join(
        f"{key}\n" + "".join(f"{name} = {_dump(value)}\n" for name, value in table.items())
        for key, table in settings.items()
        if key.startswith("[")
    )
    return top + tables


def _set(settings: Settings, field: str, value: Any) -> None:
    table, dot, name = field.rpartition(".")
    if dot:
        settings.setdefault(f"[{table}]", {})[name] = value
    else:
        settings[field] = value


def _odd_files(draw: random.Random) -> list[Callable[[Path], None]]:
    def remove(name: str) -> Callable[[Path], None]:
        return lambda folder: (folder / name).unlink(missing_ok=True)

    def write(name: str, text: str) -> Callable[[Path], None]:
        def apply(folder: Path) -> None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

        return apply

    def link(name: str, target: str) -> Callable[[Path], None]:
        def apply(folder: Path) -> None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(target)

        return apply

    return [
        remove("tests/test.sh"),
        remove("instruction.md"),
        remove("task.toml"),
        write("instruction.md", "<!-- BENCHMARK canary 123 -->\n# canary x\n\n\nDo it.\n"),
        write("instruction.md", "<!-- canary -->\n\n"),
        write("task.toml", "schema_version = \n"),
        write("tests/Dockerfile", draw.choice(DOCKERFILES)),
        write("tests/.harborignore", "*.log\n!keep.log\n"),
        write("tests/.harborignore", "test.sh\n"),
        write("tests/deep/.harborignore", "x\n"),
        write("tests/deep/x", "left out"),
        write("tests/a.log", "left out"),
        write("solution/.harborignore", "data/\n"),
        write("solution/data/big", "left out"),
        write(".gitignore", "*.tmp\n/tests/local\n"),
        write("tests/b.tmp", "x"),
        write("environment/__pycache__/a.pyc", "x"),
        write("README.md", "# About\n"),
        write("trajectory.json", "{}"),
        link("tests/inner", "../environment"),
        link("tests/up", "/etc/hostname"),
        link("solution/loop", "."),
        link("tests/dangling", "nowhere"),
    ]


def generate_folder(folder: Path, seed: int) -> Path:
    """Write a task folder, which is right or wrong by its seed."""
    draw = random.Random(seed)
    settings: Settings = {"schema_version": "1.4"}
    fields = {**DRAW_FIELDS, "steps": STEPS}
    for field in draw.sample(sorted(fields), draw.randint(0, 6)):
        right, wrong = fields[field]
        pool = right if draw.random() < 0.88 or not wrong else wrong
        if pool:
            _set(settings, field, draw.choice(pool))
    if draw.random() < 0.2:
        place = draw.choice(["environment", "agent", "verifier"])
        _set(settings, f"{place}.network_mode", "allowlist")
        _set(settings, f"{place}.allowed_hosts", draw.choice(HOSTS[draw.random() < 0.5]))
    texts = {
        "task.toml": _write_settings(settings),
        "instruction.md": "Do it.\n",
        "environment/Dockerfile": draw.choice(DOCKERFILES),
        "tests/test.sh": draw.choice(SCRIPTS),
        "solution/solve.sh": draw.choice(SCRIPTS),
    }
    steps = settings.get("steps")
    for step in steps if isinstance(steps, list) else ():
        name = step.get("name") if isinstance(step, dict) else None
        if isinstance(name, str) and name.isalnum():
            texts |= {
                f"steps/{name}/instruction.md": "Do a step.\n",
                f"steps/{name}/tests/test.sh": draw.choice(SCRIPTS),
            }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if draw.random() < 0.45:
        for apply in draw.sample(_odd_files(draw), draw.randint(1, 3)):
            apply(folder)
    return folder
