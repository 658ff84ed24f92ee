"""The stage `runs`: environments are collected by `gym eval run` and by `ng_e2e_collect_rollouts`.

A root holds the wheel's environments and resources servers; agents and model servers are this repository's. Each
command runs in an empty folder with that root as `--search-dir`, and with the configurations as they are. It collects
one task of each dataset, with one engine stub for all commands. The environments need no judge, and no package that the
shared environment lacks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.ecosystem_wheel import wheel
from tests.ecosystem_wheel.stages import PROCESSES, Finding, Workplace

LIMIT_S = 300
"""Seconds for one command, most of them for the imports of its servers."""
MODEL = "mock"
MODEL_FILE = "responses_api_models/vllm_model/configs/vllm_model.yaml"
ROOT = wheel.CACHE / f"root-{wheel.VERSION}"
AGENTS = ("gymnasium_agent", "speed_bench_agent")
"""Agents that environments name and that none of ours replaces."""
LINKED = ("environments", "resources_servers", *(f"responses_api_agents/{agent}" for agent in AGENTS))
ENVIRONMENTS = (
    *(
        "arc_agi",
        "blackjack",
        "calendar",
        "calendar_v2",
        "circle_click",
        "circle_count",
        "workplace_assistant",
    ),
    *("bbq", "citation_if", "example_multi_step", "example_session_state_mgmt", "example_single_tool_call"),
    *(
        "example_tool_call_multireward",
        "gpqa_diamond",
        "graphwalks",
        "gui_coordinate",
        "lc_niah",
        "mcqa",
        "mrcr",
    ),
    *("newton_bench", "ruler", "spartqa", "speed_bench", "string_match", "text_to_sql", "xlam_fc"),
)
"""Those of `environments/`, then those of `resources_servers/`."""


def runs(workplace: Workplace, wanted: Sequence[str]) -> list[Finding]:
    """Collect every environment, or those that `wanted` names."""
    lay_root()
    names = [name for name in ENVIRONMENTS if not wanted or name in wanted]
    with (
        tempfile.TemporaryDirectory() as folder,
        _engine(workplace, Path(folder)) as url,
        ThreadPoolExecutor(PROCESSES) as pool,
    ):
        return list(pool.map(lambda name: _collect(workplace, name, url, Path(folder) / name), names))


def lay_root() -> None:
    """Link the folders into a root."""
    for name in LINKED:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        if not (ROOT / name).is_symlink():
            (ROOT / name).symlink_to(wheel.TREE / name, target_is_directory=True)


def lines_of(name: str, url: str) -> Mapping[str, list[str]]:
    """Return the command lines that collect an environment, by the name of the command."""
    own = ROOT / "environments" / name / "config.yaml"
    file = own if own.is_file() else ROOT / "resources_servers" / name / "configs" / f"{name}.yaml"
    policy = [f"+policy_base_url={url}", f"+policy_model_name={MODEL}", "+policy_api_key=none"]
    both = ["++head_server.port=0", "++limit=1"]
    paths = f"+config_paths=[{file.relative_to(ROOT)},{MODEL_FILE}]"
    options = ["--environment", name, "--search-dir", str(ROOT), "--url", url, "--model", MODEL]
    return {
        "gym": ["eval", "run", *options, "--output", "gym.jsonl", *both],
        "ng_e2e_collect_rollouts": [paths, *policy, "+output_jsonl_fpath=ng.jsonl", *both],
    }


def _collect(workplace: Workplace, name: str, url: str, folder: Path) -> Finding:
    folder.mkdir()
    for command, line in lines_of(name, url).items():
        output, rows = (
            run_command(workplace, command, line, folder),
            folder / f"{command.partition('_')[0]}.jsonl",
        )
        count = len(rows.read_text(encoding="utf-8").splitlines()) if rows.is_file() else 0
        print(f"{name}: {command}: {count} rows", "" if count else output[-600:], file=sys.stderr, flush=True)
        if not count:
            return Finding(name, [workplace.cause(output)])
    return Finding(name)


def run_command(workplace: Workplace, command: str, line: Sequence[str], folder: Path) -> str:
    """Run a command and return its output. The servers of a command that takes too long are stopped."""
    module = "nemo_gym.cli" if command == "gym" else f"nemo_gym.cli.{command.removeprefix('ng_')}"
    with subprocess.Popen(
        [str(workplace.python), "-c", f"from {module} import main; main()", *line],
        cwd=folder,
        env=_environment(folder) | ({} if command == "gym" else {"NEMO_GYM_EXTRA_ROOTS": str(ROOT)}),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            return process.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            return f"{process.communicate()[0]}\nthe run takes over {LIMIT_S} s"


def _environment(folder: Path) -> dict[str, str]:
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    return {**os.environ, "PYTHONPATH": str(wheel.REPOSITORY), "XDG_RUNTIME_DIR": str(runtime)}


@contextmanager
def _engine(workplace: Workplace, folder: Path) -> Iterator[str]:
    program = "from nemo_gym.cli.mock_engine import main; main()"
    command = [str(workplace.python), "-c", program, f"+model={MODEL}", "+json=true"]
    with subprocess.Popen(
        command, cwd=folder, env=_environment(folder), stdout=subprocess.PIPE, text=True
    ) as engine:
        try:
            assert engine.stdout is not None
            yield str(json.loads(engine.stdout.readline())["base_url"])
        finally:
            engine.terminate()
