"""Mistakes of users, each by a real command: all end before a server starts, with exit code 2 and a suggestion."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.samples import one_in

pytestmark = pytest.mark.long_file

APP = """\
from nemo_gym.base_resources_server import BaseResourcesServerConfig, BaseVerifyResponse, SimpleResourcesServer


class ShopConfig(BaseResourcesServerConfig):
    currency: str = "EUR"


class Shop(SimpleResourcesServer):
    config: ShopConfig

    async def verify(self, body) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


if __name__ == "__main__":
    Shop.run_webserver()
"""
CONFIG = """\
shop:
  resources_servers:
    shop:
      entrypoint: app.py
      domain: other
shop_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      max_steps: 3
      resources_server: {type: resources_servers, name: shop}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
      - {name: example, type: example, jsonl_fpath: resources_servers/shop/data/example.jsonl}
"""
FOLDER = "resources_servers/shop"
FILE = f"{FOLDER}/configs/shop.yaml"
POLICY = "--url http://127.0.0.1:9/v1 --model m"
RUN = f"gym eval run shop {POLICY}"
START = f"gym env start shop {POLICY}"


def row(agent: str | None = "shop_simple_agent") -> str:
    task: dict[str, object] = {"responses_create_params": {"input": "The price?"}}
    if agent is not None:
        task["agent_ref"] = {"type": "responses_api_agents", "name": agent}
    return json.dumps(task) + "\n"


@dataclass(frozen=True)
class Mistake:
    """A command in a folder with the environment `shop`, and the texts of its message."""

    name: str
    command: str
    says: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that are added or replaced, by path."""


def in_config(old: str, new: str) -> dict[str, str]:
    assert old in CONFIG
    return {FILE: CONFIG.replace(old, new, 1)}


MISTAKES = (
    # Names
    Mistake("an unknown environment", f"gym eval run shoop {POLICY}", ("'shoop'", "Did you mean 'shop'?")),
    Mistake(
        "an ambiguous name",
        RUN,
        ("--benchmark shop or --resources-server shop",),
        {"benchmarks/shop/config.yaml": CONFIG},
    ),
    Mistake("an unknown model server", f"{RUN} --model-type vlm_model", ("'vlm_model'", "'vllm_model'")),
    Mistake("an unknown folder", f"{RUN} --search-dir nowhere", ("--search-dir", "no folder", "nowhere")),
    Mistake("an unknown verb", "gym eval rnu shop", ("no verb 'rnu'", "Choose one of prepare, run")),
    Mistake("an unknown option", "gym eval run shop --modle m", ("--modle", "--model")),
    Mistake("an unknown kind", "gym list modles", ("kind must be", "Did you mean 'models'?")),
    # Keys and values of commands
    Mistake(
        "config_path",
        f"ng_run +config_path=[{FILE}]",
        ("command line: +config_path", "Did you mean 'config_paths'?"),
    ),
    Mistake(
        "a missing file",
        f"ng_run +config_paths=[{FILE.replace('shop.yaml', 'shopp.yaml')}]",
        ("no file", f"Did you mean '{FILE}'?"),
    ),
    Mistake("a name for a configuration", "gym run shop", ("gym env start shop", "gym eval run shop")),
    Mistake(
        "a name among configurations",
        f"gym eval run +config_paths=[shop] {POLICY}",
        ("no file 'shop'", "gym env start shop", "gym eval run shop"),
    ),
    Mistake("a name for a list", "ng_run +config_paths=shop", ("must be a list", "gym env start shop")),
    Mistake("no configuration", "ng_run", ("has no server", "gym list")),
    Mistake(
        "no server in the configuration",
        "ng_run +config_paths=[a.yaml]",
        ("has no server", "+config_paths"),
        {"a.yaml": "policy_model_name: m\n"},
    ),
    Mistake("text for a number", f"{RUN} +num_repeats=two", ("num_repeats", "'two'", "Write a number")),
    Mistake("no repeats", f"{RUN} -n 0", ("num_repeats must be greater than or equal to 1", "not 0")),
    Mistake("a negative limit", f"{RUN} --limit -1", ("limit must be greater than or equal to 1, not -1",)),
    Mistake("a contradiction", f"{RUN} --resume --overwrite", ("exclude each other", "The first continues")),
    Mistake(
        "a URL without a scheme",
        "gym eval run shop --url localhost:8000/v1 --model m",
        ("command line", "'localhost:8000/v1'", "Did you mean 'http://localhost:8000/v1'?"),
    ),
    Mistake(
        "no policy",
        "gym eval run shop",
        ("2 problems", "vllm_model.yaml:5:7", "--url", "--model"),
    ),
    Mistake(
        "an unknown format",
        "gym eval export --format stf --rollouts a.jsonl -o b.jsonl",
        ("'stf'", "sft"),
        {"a.jsonl": row()},
    ),
    Mistake("no run to compare", "gym eval compare a.jsonl b.jsonl", ("no run at a.jsonl", "scored rows")),
    # Configuration files
    Mistake(
        "a wrong type on the command line",
        f"{RUN} ++shop_simple_agent.responses_api_agents.simple_agent.max_steps=five",
        ("command line: ++shop_simple_agent", "max_steps", "'five'", "Write a number"),
    ),
    Mistake(
        "a wrong type in a file",
        START,
        (f"{FILE}:10:7", "max_steps", "Write a number"),
        in_config("max_steps: 3", "max_steps: five"),
    ),
    Mistake(
        "a misspelt option",
        START,
        (f"{FILE}:5:7", "'curency'", "'currency'"),
        in_config("domain: other", "curency: USD"),
    ),
    Mistake(
        "an unknown server",
        RUN,
        (f"{FILE}:11:51", "no server 'shopp'", "Did you mean 'shop'?"),
        in_config("name: shop}", "name: shopp}"),
    ),
    Mistake(
        "a misspelt kind",
        START,
        (f"{FILE}:2:3", "Did you mean 'resources_servers'?"),
        in_config("  resources_servers:", "  resources_server:"),
    ),
    Mistake("a missing app", START, (f"{FILE}:4:7", "Did you mean 'app.py'?"), in_config("app.py", "ap.py")),
    Mistake(
        "a file that is not YAML",
        f"gym eval run ./c.yaml {POLICY}",
        ("c.yaml:11:23", "not YAML", "Check indentation"),
        {"c.yaml": CONFIG.replace("max_steps: 3", "max_steps: [3")},
    ),
    Mistake("an env.yaml that is not YAML", RUN, ("env.yaml:2:1", "not YAML"), {"env.yaml": 'a: "x\n'}),
    Mistake(
        "a key given twice", START, (f"{FILE}:15:1", "given twice", "Keep one"), {FILE: CONFIG + "shop: 3\n"}
    ),
    # Code
    Mistake(
        "a syntax error",
        RUN,
        (f"{FOLDER}/app.py:11", "SyntaxError"),
        {f"{FOLDER}/app.py": APP.replace("async def", "async deff")},
    ),
    Mistake(
        "a missing package",
        START,
        (f"{FOLDER}/app.py:1", "No module named 'nosuchpackage'", "Add nosuchpackage"),
        {f"{FOLDER}/app.py": f"import nosuchpackage\n{APP}"},
    ),
    Mistake(
        "a misspelt base class",
        START,
        (f"{FOLDER}/app.py:8", "'SimpleResourceServer' is not defined"),
        {f"{FOLDER}/app.py": APP.replace("Shop(SimpleResourcesServer", "Shop(SimpleResourceServer")},
    ),
    # Rows
    Mistake(
        "malformed rows",
        RUN,
        ("2 rows are malformed", "example.jsonl:2", "must be an object", "example.jsonl:3", "is not JSON"),
        {f"{FOLDER}/data/example.jsonl": row() + '{"responses_create_params": 3}\n{nope\n'},
    ),
    Mistake(
        "an unknown agent in a row",
        f"{RUN} -i t.jsonl",
        ("no agent is named `shop_simpl_agent`", "Did you mean 'shop_simple_agent'?"),
        {"t.jsonl": row("shop_simpl_agent")},
    ),
    Mistake(
        "an unknown agent in the command",
        f"{RUN} -i t.jsonl -a shop_simpl_agent",
        ("shop_simpl_agent", "Did you mean 'shop_simple_agent'?"),
        {"t.jsonl": row(None)},
    ),
    Mistake(
        "rows without an agent",
        f"{RUN} -i t.jsonl",
        ("t.jsonl:1", "`agent_ref`", "--agent"),
        {
            "t.jsonl": row(None),
            FILE: CONFIG + CONFIG[CONFIG.index("shop_simple") :].replace("shop_", "other_", 1),
        },
    ),
    Mistake("a missing dataset", f"{RUN} -i t.jsonl", ("t.jsonl does not exist", "Check the path")),
    Mistake(
        "a missing declared dataset",
        RUN,
        (f"{FILE}:14:9", "does not exist", "Fetch or prepare"),
        in_config("example.jsonl", "exampel.jsonl"),
    ),
    Mistake("a dataset of another type", f"{RUN} --split train", ("type train", "--split example")),
    Mistake(
        "a file that is not compressed",
        f"{RUN} -i t.jsonl.gz",
        ("t.jsonl.gz is damaged",),
        {"t.jsonl.gz": row()},
    ),
    Mistake(
        "a prompt with an unknown field",
        f"{RUN} -i t.jsonl -a shop_simple_agent --prompt-config p.yaml",
        ("t.jsonl:1", "questoin", "it has `question`"),
        {"t.jsonl": '{"question": "1"}\n', "p.yaml": 'user: "{questoin}"\n'},
    ),
    # Outputs
    Mistake(
        "an output that exists", f"{RUN} -o out.jsonl", ("out.jsonl", "--overwrite"), {"out.jsonl": "{}\n"}
    ),
    Mistake(
        "an output that is a folder",
        f"{RUN} -o results",
        ("is a folder", "results/rollouts.jsonl"),
        {"results/notes.txt": ""},
    ),
    Mistake(
        "an output below a file",
        f"{RUN} -o f/out.jsonl",
        ("the output folder f", "Choose another"),
        {"f": ""},
    ),
    Mistake("an output that cannot be written", f"{RUN} -o /proc/out.jsonl", ("/proc", "Choose another")),
    # Several at once
    Mistake(
        "misspelt options and values",
        f"{RUN} --limt 4 --temprature 1 -n four",
        ("'--limt'. Did you mean '--limit'", "'--temprature'. Did you mean '--temperature'?", "'four'"),
    ),
    Mistake(
        "no row is left",
        f"{RUN} -i t.jsonl +skip_invalid_rows=true",
        ("t.jsonl:1", "Correct them: without them no row is left."),
        {"t.jsonl": "nope\n"},
    ),
    Mistake(
        "mistakes in rows and output",
        f"{RUN} -i t.jsonl -o f/out.jsonl",
        ("2 problems", "the output folder f", "t.jsonl:1"),
        {"t.jsonl": "nope\n", "f": ""},
    ),
    Mistake(
        "mistakes without a gym",
        "ng_collect_rollouts +agent_name=a +input_jsonl_fpath=t.jsonl +output_jsonl_fpath=o.jsonl "
        "+head_server.port=9",
        ("2 problems", "t.jsonl:1", "no head server answers", "ng_run"),
        {"t.jsonl": "nope\n"},
    ),
)


def plant(folder: Path, mistake: Mistake) -> None:
    base = {f"{FOLDER}/app.py": APP, FILE: CONFIG, f"{FOLDER}/data/example.jsonl": row()}
    for path, text in {**base, **mistake.files}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_there_are_thirty_and_more() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 30


@pytest.mark.parametrize("mistake", one_in(3, MISTAKES), ids=lambda mistake: mistake.name)
def test_a_mistake_is_reported_before_anything_starts(tmp_path: Path, mistake: Mistake) -> None:
    plant(tmp_path, mistake)
    command, *arguments = shlex.split(mistake.command)
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        [Path(sys.executable).parent / command, *arguments],
        cwd=tmp_path,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for text in mistake.says:
        assert text in done.stderr
    assert not (tmp_path / ".nemo_gym").exists(), "a server was started"
