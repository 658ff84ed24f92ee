"""The mistakes by which a newcomer judged the gym: each has a test of its message.

`MISTAKES` lists them as judged, with the test of each. Those without another test are made here, by real commands.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from tests.e2e.gym_command import run_gym
from tests.e2e.test_failing_tools import engine, environment, folder, rewrite

__all__ = ["engine", "environment", "folder"]  # fixtures

PLANTED = "tests/cli/test_planted_mistakes.py"
HERE = "tests/e2e/test_judged_mistakes.py"
TOOLS = "tests/e2e/test_failing_tools.py"
MISTAKES = {
    # Judged clear: cause, place and remedy.
    "URL without /v1": f"{HERE}::without /v1",
    "URL without scheme": f"{PLANTED}::a URL without a scheme",
    "URL with route": f"{HERE}::with a route",
    "wrong host": f"{HERE}::a wrong host",
    "wrong port": f"{HERE}::a wrong port",
    "wrong model": f"{HERE}::a wrong model",
    "no model": f"{HERE}::no model",
    "no URL": f"{PLANTED}::no policy",
    "name typo": f"{PLANTED}::an unknown environment",
    "flag typo": f"{PLANTED}::an unknown option",
    "key typo": f"{PLANTED}::config_path",
    "max_steps: ten": f"{PLANTED}::a wrong type in a file",
    "max_step": f"{PLANTED}::a misspelt option",
    "dataset type": f"{PLANTED}::a dataset of another type",
    "reference typo": f"{PLANTED}::an unknown server",
    "YAML indent": f"{PLANTED}::a file that is not YAML",
    "malformed JSON row": f"{PLANTED}::malformed rows",
    "misspelt tool": f"{HERE}::a misspelt tool",
    "second run over a run": f"{HERE}::test_a_second_run_over_a_run_is_refused",
    "two writers": "tests/rollouts/output/test_append_file.py::test_a_second_writer_is_refused",
    "folder as output": f"{PLANTED}::an output that is a folder",
    "port taken": f"{HERE}::test_a_taken_port_is_told_with_its_holder",
    "bad environment name": f"{HERE}::a bad environment name",
    "existing environment": f"{HERE}::an existing environment",
    "unknown format": f"{PLANTED}::an unknown format",
    "unknown filter column": "tests/viewer/test_exporting.py::test_an_unknown_column_is_an_error",
    "missing file": f"{PLANTED}::a missing file",
    "missing W&B": f"{HERE}::a missing tracker",
    "full disk": "tests/rollouts/run/test_collect.py::test_a_run_that_fills_the_disk_is_broken_and_can_be_resumed",
    "exception in verify": f"{HERE}::raised",
    "KeyError from a forgotten seed": f"{HERE}::forgotten",
    "SyntaxError": f"{PLANTED}::a syntax error",
    "ImportError": f"{PLANTED}::a missing package",
    "timeout of rollouts": "tests/chaos/chaos_spinning_verifier.py::def test",
    # Judged weak.
    "wrong type of a row's field": f"{HERE}::test_fields_of_rows_are_told_with_line_key_and_value",
    "missing field of a row": f"{HERE}::test_fields_of_rows_are_told_with_line_key_and_value",
    "messages": f"{HERE}::messages",
    "JSON array": f"{HERE}::a JSON array",
    "chat-style tool": f"{HERE}::a chat-style tool",
    "NaN": f"{HERE}::nan",
    "float from verify": f"{HERE}::float",
    'reward="good"': f"{HERE}::word",
    "no run_webserver": f"{HERE}::test_an_app_that_does_not_serve_is_tried_once",
    "setup_webserver without return app": f"{HERE}::test_an_app_that_is_not_returned_is_tried_once",
    "agent_ref typo in a row": f"{HERE}::a misspelt agent",
    "Ctrl-C before 0.3 s": f"{HERE}::test_an_early_interrupt_has_no_traceback",
    "DPO without variance": "tests/export/test_dpo.py::test_equal_rewards_make_no_pair",
    # Judged silent.
    "a tool that raises": f"{TOOLS}::raise ValueError",
    "a tool without a route": f"{TOOLS}::ROUTE",
    "a tool that reads the query": "tests/resources/test_handler_check.py::query",
    "an untyped body of a tool": "tests/resources/test_handler_check.py::body",
    "changed verifier on resume": "tests/e2e/test_resumed_changes.py::def test",
    "foreign gym": "tests/rollouts/run/test_discovery.py::folder",
    'reward="0.5"': f"{HERE}::text",
    "reward above 1": f"{HERE}::above",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_has_a_test(mistake: str) -> None:
    path, _, name = MISTAKES[mistake].partition("::")
    assert name in (PARENT_DIR / path).read_text(encoding="utf-8")


def gym(folder: Path, environment: dict[str, str], line: str) -> subprocess.CompletedProcess[str]:
    return run_gym(folder, environment, *line.split())


def edit_rows(folder: Path, old: str, new: str) -> None:
    """Write `t.jsonl`: the example tasks with a change in each."""
    rows = (folder / "resources_servers/lockbox/data/example.jsonl").read_text()
    assert old in rows
    (folder / "t.jsonl").write_text(rows.replace(old, new))


RUN = "eval run lockbox --url URL --model mock"
BEFORE_ROLLOUTS = {
    "without /v1": (
        "eval run lockbox --url ROOT --model mock",
        ("has no API of models", "Write http://", "/v1"),
    ),
    "with a route": (
        "eval run lockbox --url URL/chat/completions --model mock",
        ("is a route, not a base URL", "Did you mean"),
    ),
    "a wrong host": ("eval run lockbox --url http://nowhere.invalid:1/v1 --model mock", ("nowhere.invalid",)),
    "a wrong port": (
        "eval run lockbox --url http://127.0.0.1:9/v1 --model mock",
        ("refuses the connection", "host and port"),
    ),
    "a wrong model": (
        "eval run lockbox --url URL --model other",
        ("no model named `other`", "It serves: mock"),
    ),
    "no model": ("eval run lockbox --url URL", ("--model",)),
    "a bad environment name": ("env init my-lockbox", ("cannot be the name", "lower-case letters")),
    "an existing environment": ("env init lockbox", ("already exists", "Choose another name")),
    "a missing tracker": (f"{RUN} +track=mlflow +track_uri=x", ("mlflow", "pip install")),
}
IN_ROWS = {
    "a misspelt tool": (
        '"name": "open_drawer"',
        '"name": "open_drawr"',
        ("open_drawr", "t.jsonl:1", "open_drawer"),
    ),
    "a misspelt agent": (
        '"notes"',
        '"agent_ref": {"name": "lockbox_simple_agnt"}, "notes"',
        ("t.jsonl:1", "lockbox_simple_agnt", "Did you mean 'lockbox_simple_agent'?"),
    ),
    "messages": ('"input"', '"messages"', ("t.jsonl:1", "Chat Completions", "gym dataset convert t.jsonl")),
    "a chat-style tool": (
        '"type": "function", "name": "open_drawer"',
        '"type": "function", "function": {"name": "open_drawer"}',
        ("t.jsonl:1", "tools[0]", "Chat Completions", "gym dataset convert t.jsonl"),
    ),
}


@pytest.mark.parametrize("mistake", BEFORE_ROLLOUTS)
def test_a_command_is_refused_with_cause_and_remedy(
    folder: Path, environment: dict[str, str], engine: str, mistake: str
) -> None:
    line, said = BEFORE_ROLLOUTS[mistake]
    done = gym(folder, environment, line.replace("URL", engine).replace("ROOT", engine.removesuffix("/v1")))
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for text in said:
        assert text in done.stderr


@pytest.mark.parametrize("mistake", IN_ROWS)
def test_rows_are_refused_with_their_lines(
    folder: Path, environment: dict[str, str], engine: str, mistake: str
) -> None:
    old, new, said = IN_ROWS[mistake]
    edit_rows(folder, old, new)
    done = gym(folder, environment, f"{RUN} -i t.jsonl -o r.jsonl".replace("URL", engine))
    assert done.returncode == 2, done.stderr
    for text in said:
        assert text in done.stderr
    assert not (folder / "r.jsonl").exists()


def test_a_json_array_is_named_with_the_command_that_converts_it(
    folder: Path, environment: dict[str, str], engine: str
) -> None:
    """A JSON array."""
    rows = (folder / "resources_servers/lockbox/data/example.jsonl").read_text().splitlines()
    (folder / "t.json").write_text(json.dumps([json.loads(row) for row in rows], indent=1))
    run = f"{RUN} -i t.json -o r.jsonl".replace("URL", engine)
    done = gym(folder, environment, run)
    assert done.returncode == 2
    assert "t.json is a JSON array" in done.stderr
    (convert,) = re.findall(r"gym (dataset convert .*)", done.stderr)
    assert gym(folder, environment, convert).returncode == 0
    assert gym(folder, environment, run.replace("t.json ", "t_tasks.jsonl ")).returncode == 0


def test_fields_of_rows_are_told_with_line_key_and_value(
    folder: Path, environment: dict[str, str], engine: str
) -> None:
    rows = [
        json.loads(line)
        for line in (folder / "resources_servers/lockbox/data/example.jsonl").read_text().splitlines()
    ]
    rows[0]["notes"] = 123
    del rows[1]["notes"]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = gym(folder, environment, f"{RUN} -i t.jsonl -o r.jsonl".replace("URL", engine))
    assert done.returncode == 2
    for text in ("2 problems", "t.jsonl:1", "`notes` is 123", "t.jsonl:2", "needs `notes`"):
        assert text in done.stderr
    assert not (folder / "r.jsonl").exists()


VERDICTS = {
    "nan": (
        'BaseVerifyResponse(**dict(body), reward=float("nan"))',
        "`reward` is nan (resources_servers/lockbox/app.py:",
    ),
    "float": (
        "0.5",
        "`verify` returned 0.5, which is no BaseVerifyResponse (resources_servers/lockbox/app.py:",
    ),
    "word": (
        'BaseVerifyResponse(**dict(body), reward="good")',
        "refuses reward: Value error, is the text 'good'",
    ),
    "text": (
        'BaseVerifyResponse(**dict(body), reward="0.5")',
        "refuses reward: Value error, is the text '0.5'",
    ),
    "raised": ("1 / 0", "ZeroDivisionError: division by zero"),
    "forgotten": ('request.session["no_such_key"]', "KeyError: 'no_such_key'"),
    "above": ("BaseVerifyResponse(**dict(body), reward=3.0)", "1 of 1 rewards are above 1"),
}


def test_verdicts_without_a_reward_and_above_the_best_one_are_told(
    folder: Path, environment: dict[str, str], engine: str
) -> None:
    cases = "\n".join(
        f"        if kind == {kind!r}:\n            return {code}" for kind, (code, _) in VERDICTS.items()
    )
    rewrite(
        folder,
        "        (note,) =",
        f"        kind = (body.model_extra or {{}})['kind']\n{cases}\n        (note,) =",
    )
    rewrite(
        folder,
        "body: BaseVerifyRequest",
        "body: AnyRequest",
    )
    rewrite(
        folder,
        "class OpenDrawer",
        'class AnyRequest(BaseVerifyRequest, extra="allow"): ...\n\n\nclass OpenDrawer',
    )
    row = json.loads((folder / "resources_servers/lockbox/data/example.jsonl").read_text().splitlines()[0])
    (folder / "t.jsonl").write_text("".join(json.dumps({**row, "kind": kind}) + "\n" for kind in VERDICTS))
    done = gym(folder, environment, f"{RUN} -i t.jsonl -o r.jsonl".replace("URL", engine))
    assert done.returncode == 3, done.stderr
    every = (
        done.stdout + gym(folder, environment, "eval failures r.jsonl").stdout
    )  # the first has the frequent ones
    for _, said in VERDICTS.values():
        assert said in every
    assert every.count("raised at resources_servers/lockbox/app.py:") >= 4


def test_an_app_that_does_not_serve_is_tried_once(
    folder: Path, environment: dict[str, str], engine: str
) -> None:
    rewrite(folder, 'if __name__ == "__main__":\n    Lockbox.run_webserver()\n', "")
    done = gym(folder, environment, RUN.replace("URL", engine))
    assert done.returncode == 2
    assert "end app.py with `MyServer.run_webserver()`" in done.stderr
    assert done.stderr.count("died: lockbox") == 1


def test_an_app_that_is_not_returned_is_tried_once(
    folder: Path, environment: dict[str, str], engine: str
) -> None:
    rewrite(folder, "        return app\n", "")
    done = gym(folder, environment, RUN.replace("URL", engine))
    assert done.returncode == 2
    assert "End it with `return app`" in done.stderr
    assert done.stderr.count("died: lockbox") == 1


def test_a_second_run_over_a_run_is_refused(folder: Path, environment: dict[str, str], engine: str) -> None:
    run = f"{RUN} -o r.jsonl".replace("URL", engine)
    assert gym(folder, environment, run).returncode == 0
    done = gym(folder, environment, run)
    assert done.returncode == 2
    assert "belongs to an earlier run" in done.stderr
    assert "Resume that run with --resume, move its files aside with --overwrite" in done.stderr.replace(
        "\n", " "
    )
    assert "+" not in done.stderr


def test_a_taken_port_is_told_with_its_holder(folder: Path, environment: dict[str, str], engine: str) -> None:
    port = engine.rpartition(":")[2].partition("/")[0]
    done = gym(folder, environment, f"mock-engine +port={port}")
    assert done.returncode == 2
    assert "the port is taken by" in done.stderr


class Interrupted:
    """Commands that are interrupted when their first module of ours is imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sitecustomize.py").write_text(
            "import os, sys\n"
            "class Interrupting:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == os.environ['INTERRUPTED_AT']:\n"
            "            try:\n"
            "                raise KeyboardInterrupt\n"
            "            except KeyboardInterrupt as error:\n"
            "                if 'INTERRUPT_IS_TAKEN' in os.environ:\n"
            "                    raise AttributeError(name) from error\n"
            "                raise\n"
            "sys.meta_path.insert(0, Interrupting())\n"
        )

    def run(self, module: str, *command: str, is_taken: bool = False) -> subprocess.CompletedProcess[str]:
        """`is_taken`: a library raises another error for the interrupt."""
        variables = {**os.environ, "PYTHONPATH": str(self.folder), "INTERRUPTED_AT": module}
        if is_taken:
            variables["INTERRUPT_IS_TAKEN"] = "1"
        return run_command(command, self.folder, variables)


def run_command(
    command: tuple[str, ...], folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    from tests.e2e.test_failing_tools import BIN

    program, *arguments = command
    return subprocess.run(
        [BIN / program, *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def interrupted(tmp_path: Path) -> Interrupted:
    return Interrupted(tmp_path)


@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("click", ("gym", "eval", "run", "mcqa")),
        ("pydantic", ("gym", "eval", "run", "mcqa")),
        ("pydantic", ("ng_validate",)),
        ("nemo_gym.cli.command", ("ng_run",)),
        ("nemo_gym.config.loading", ("ng_run",)),
    ],
)
def test_an_early_interrupt_has_no_traceback(
    interrupted: Interrupted, module: str, command: tuple[str, ...], is_taken: bool
) -> None:
    done = interrupted.run(module, *command, is_taken=is_taken)
    assert done.returncode == 130, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.endswith("interrupted\n")
