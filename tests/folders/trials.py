"""Task folders whose trials differ in one thing each: what the verifier writes, where it runs, how steps follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OFFLINE = '[environment]\nnetwork_mode = "no-network"\nworkdir = "/tmp"\n'
CHECK = '[ "$(cat /tmp/answer)" = right ]'
RIGHT, WRONG = "#!/bin/bash\necho right > /tmp/answer\n", "#!/bin/bash\necho wrong > /tmp/answer\n"
TEXT, JSON = "/logs/verifier/reward.txt", "/logs/verifier/reward.json"


def _score(right: str, wrong: str, file: str = TEXT) -> str:
    return f"#!/bin/bash\nif {CHECK}; then echo '{right}' > {file}; else echo '{wrong}' > {file}; fi\n"


def _objects(right: Any, wrong: Any) -> str:
    return _score(json.dumps(right), json.dumps(wrong), JSON)


WRITTEN = {
    "plain": _score("1", "0"),
    "fraction": _score("0.75", "0.25"),
    "negative": _score("-1", "-2.5"),
    "spaces": _score("  1.5  ", "\t0 "),
    "exponent": _score("1e-3", "1E2"),
    "nan": _score("NaN", "0"),
    "infinite": _score("1", "inf"),
    "text": _score("good", "0"),
    "empty": f"#!/bin/bash\n{CHECK} && echo 1 > {TEXT} || : > {TEXT}\n",
    "none": f"#!/bin/bash\n{CHECK} && echo 1 > {TEXT}\n",
    "underscore": _score("1_0", "0"),
    "json": _objects({"reward": 1}, {"reward": 0}),
    "several": _objects({"reward": 1, "style": 0.5}, {"reward": 0, "style": 0.25}),
    "boolean": _objects({"reward": True}, {"reward": False}),
    "unnamed": _objects({"score": 0.5}, {"score": 0}),
    "json_text": _objects({"reward": "1"}, {"reward": 0}),
    "json_null": _objects({"reward": None}, {"reward": 0}),
    "json_list": _objects([1], {"reward": 0}),
    "json_number": _objects(1, {"reward": 0}),
    "json_nested": _objects({"reward": {"a": 1}}, {"reward": 0}),
    "json_huge": _score('{"reward": 1e999}', '{"reward": 0}', JSON),
    "json_nan": _score('{"reward": NaN}', '{"reward": 0}', JSON),
    "json_broken": _score("{reward: 1}", '{"reward": 0}', JSON),
    "both": f"#!/bin/bash\necho 0.1 > {TEXT}\n" + _objects({"reward": 1}, {"reward": 0})[12:],
    "status": _score("1", "0") + "exit 7\n",
    "crash": f"#!/bin/bash\nset -e\n{CHECK}\necho 1 > {TEXT}\n",
    "sh": _score("1", "0").replace("/bin/bash", "/bin/sh"),
}
SETTINGS = {
    "old_schema": ('schema_version = "1.0"\n' + OFFLINE, {}),
    "workdir": (
        OFFLINE.replace("/tmp", "/var"),
        {"tests/test.sh": f'#!/bin/bash\n[ "$PWD" = /var ] && echo 1 > {TEXT}\n'},
    ),
    "variables": (
        OFFLINE + 'env = { A = "1" }\n[verifier]\nenv = { B = "${NO_SUCH_VARIABLE:-0.5}" }\n',
        {"tests/test.sh": f'#!/bin/bash\necho "$A$B" > {TEXT}\n'},
    ),
    "solution_env": (
        OFFLINE + '[solution]\nenv = { WORD = "right" }\n',
        {"solution/solve.sh": "#!/bin/bash\necho $WORD > /tmp/answer\n"},
    ),
    "health": (OFFLINE + '[environment.healthcheck]\ncommand = "true"\n', {}),
    "sick": (OFFLINE + '[environment.healthcheck]\ncommand = "false"\ninterval_sec = 0.1\nretries = 2\n', {}),
    "slow_verifier": (
        OFFLINE + "[verifier]\ntimeout_sec = 2\n",
        {"tests/test.sh": f"#!/bin/bash\nsleep 30; echo 1 > {TEXT}\n"},
    ),
    "slow_agent": (
        OFFLINE + "[agent]\ntimeout_sec = 2\n",
        {"solution/solve.sh": "#!/bin/bash\necho right > /tmp/answer; sleep 30\n"},
    ),
    "helper_files": (
        OFFLINE,
        {
            "tests/test.sh": f"#!/bin/bash\nbash /tests/lib/check.sh > {TEXT}\n",
            "tests/lib/check.sh": f"{CHECK} && echo 1 || echo 0\n",
        },
    ),
    "ignored_files": (
        OFFLINE,
        {
            "tests/test.sh": f"#!/bin/bash\nls -A /tests | wc -l > {TEXT}\n",
            "tests/.harborignore": "*.log\n",
            "tests/a.log": "x",
        },
    ),
    "solution_files": (
        OFFLINE,
        {"solution/solve.sh": "#!/bin/bash\ncp $(dirname $0)/word /tmp/answer\n", "solution/word": "right\n"},
    ),
    "old_rewards": (
        OFFLINE,
        {"solution/solve.sh": f"#!/bin/bash\necho right > /tmp/answer; echo 5 > {TEXT}; echo 9 > {JSON}\n"},
    ),
    "failing_solution": (OFFLINE, {"solution/solve.sh": RIGHT + "exit 3\n"}),
    "separate": (
        'artifacts = ["/tmp/answer"]\n' + OFFLINE + '[verifier]\nenvironment_mode = "separate"\n',
        {},
    ),
    "separate_without": (OFFLINE + '[verifier]\nenvironment_mode = "separate"\n', {}),
    "separate_published": (
        OFFLINE + '[verifier]\nenvironment_mode = "separate"\n',
        {
            "solution/solve.sh": "#!/bin/bash\necho 1 > /logs/artifacts/out\n",
            "tests/test.sh": f"#!/bin/bash\ncat /logs/artifacts/out > {TEXT} || echo 0 > {TEXT}\n",
        },
    ),
    "separate_excluded": (
        '[[artifacts]]\nsource = "/tmp/out"\nexclude = ["*.o"]\n'
        + OFFLINE
        + '[verifier]\nenvironment_mode = "separate"\n',
        {
            "solution/solve.sh": "#!/bin/bash\nmkdir -p /tmp/out/in; cd /tmp/out; touch a.o b in/c.o in/d\n",
            "tests/test.sh": f"#!/bin/bash\nfind /tmp/out -type f | wc -l > {TEXT}\n",
        },
    ),
    "separate_destination": (
        '[[artifacts]]\nsource = "/tmp/answer"\ndestination = "kept/word"\n'
        + OFFLINE
        + '[verifier]\nenvironment_mode = "separate"\n',
        {},
    ),
    "separate_collision": (
        '[[artifacts]]\nsource = "/tmp/answer"\ndestination = "x"\n'
        '[[artifacts]]\nsource = "/tmp/other"\ndestination = "x"\n'
        + OFFLINE
        + '[verifier]\nenvironment_mode = "separate"\n',
        {
            "solution/solve.sh": "#!/bin/bash\necho a > /tmp/answer; echo b > /tmp/other\n",
            "tests/test.sh": f"#!/bin/bash\nls /tmp/answer /tmp/other 2>/dev/null | wc -l > {TEXT}\n",
        },
    ),
    "separate_link": (
        'artifacts = ["/tmp/out"]\n' + OFFLINE + '[verifier]\nenvironment_mode = "separate"\n',
        {
            "solution/solve.sh": "#!/bin/bash\nmkdir /tmp/out; cd /tmp/out; ln -s /etc/passwd a; date > f; ln -s f b\n",
            "tests/test.sh": f"#!/bin/bash\nls /tmp/out | wc -l > {TEXT}\n",
        },
    ),
    "separate_env": (
        'artifacts = ["/tmp/answer"]\n'
        + OFFLINE
        + '[verifier.environment]\nnetwork_mode = "no-network"\nenv = { A = "3" }\n',
        {"tests/test.sh": f'#!/bin/bash\necho "$A" > {TEXT}\n'},
    ),
    "hook": (
        'artifacts = ["/tmp/late"]\n' + OFFLINE + '[verifier]\nenvironment_mode = "separate"\n'
        '[[verifier.collect]]\ncommand = "cp /tmp/answer /tmp/late"\n[[verifier.collect]]\ncommand = "exit 4"\n',
        {"tests/test.sh": f"#!/bin/bash\ngrep -c right /tmp/late > {TEXT}; true\n"},
    ),
}
STEP = {"instruction.md": "Go on.", "tests/test.sh": _score("1", "0"), "solution/solve.sh": RIGHT}
HALF = {**STEP, "tests/test.sh": _score("0.5", "0")}
MULTI: dict[str, tuple[str, dict[str, tuple[str, dict[str, str]]]]] = {
    "mean": ("", {"a": ("", STEP), "b": ("", HALF)}),
    "final": ('multi_step_reward_strategy = "final"\n', {"a": ("", STEP), "b": ("", HALF)}),
    "stopped": ("", {"a": ("min_reward = 0.75", HALF), "b": ("", STEP)}),
    "stopped_final": (
        'multi_step_reward_strategy = "final"\n',
        {"a": ("min_reward = 0.75", HALF), "b": ("", STEP)},
    ),
    "threshold_table": ("", {"a": ("min_reward = { style = 0.5 }", STEP), "b": ("", STEP)}),
    "keys": ("", {"a": ("", {**STEP, "tests/test.sh": _objects({"x": 1}, {"x": 0})}), "b": ("", STEP)}),
    "no_verdict": ("", {"a": ("", {**STEP, "tests/test.sh": "#!/bin/bash\ntrue\n"}), "b": ("", STEP)}),
    "late_no_verdict": ("", {"a": ("", STEP), "b": ("", {**STEP, "tests/test.sh": "#!/bin/bash\ntrue\n"})}),
    "setup": ("", {"a": ("", {**STEP, "workdir/setup.sh": "echo x > given"}), "b": ("", STEP)}),
    "failed_setup": ("", {"a": ("", STEP), "b": ("", {**STEP, "workdir/setup.sh": "exit 5"})}),
    "first_failed_setup": ("", {"a": ("", {**STEP, "workdir/setup.sh": "exit 5"}), "b": ("", STEP)}),
    "sick_step": ("", {"a": ("", STEP), "b": ('[steps.healthcheck]\ncommand = "false"\nretries = 1', STEP)}),
    "clean_tests": (
        "",
        {
            "a": ("", {**STEP, "tests/only_a": "x"}),
            "b": (
                "",
                {
                    **STEP,
                    "solution/solve.sh": "#!/bin/bash\nls /tests | wc -l > /tmp/seen\n",
                    "tests/test.sh": f"#!/bin/bash\ncat /tmp/seen > {TEXT}\n",
                },
            ),
        },
    ),
    "separate_steps": (
        'artifacts = ["/tmp/answer"]\n',
        {"a": ('[steps.verifier]\nenvironment_mode = "separate"', STEP), "b": ("", HALF)},
    ),
    "separate_last": (
        'artifacts = ["/tmp/answer"]\n',
        {"a": ("", STEP), "b": ('[steps.verifier]\nenvironment_mode = "separate"', HALF)},
    ),
    "step_artifacts": (
        "",
        {
            "a": ('artifacts = ["/tmp/answer"]\n[steps.verifier]\nenvironment_mode = "separate"', STEP),
            "b": ("", STEP),
        },
    ),
}


def write_trials(root: Path, *, wrong: bool = False) -> list[Path]:
    """Write all folders, with solutions that are right or, where a solution only writes the answer, wrong."""
    solution = WRONG if wrong else RIGHT
    tasks: dict[str, dict[str, str]] = {}
    for name, test in WRITTEN.items():
        tasks[f"written_{name}"] = {"task.toml": OFFLINE, "tests/test.sh": test}
    for name, (settings, files) in SETTINGS.items():
        tasks[f"settings_{name}"] = {"task.toml": settings, "tests/test.sh": WRITTEN["plain"], **files}
    for name, (settings, steps) in MULTI.items():
        tables = "".join(f'[[steps]]\nname = "{step}"\n{text}\n' for step, (text, _) in steps.items())
        tasks[f"steps_{name}"] = {"task.toml": f"{settings}{OFFLINE}{tables}"}
        for step, (_, files) in steps.items():
            tasks[f"steps_{name}"] |= {f"steps/{step}/{path}": text for path, text in files.items()}
    for name, files in tasks.items():
        usual = {
            "instruction.md": "Do it.\n",
            "environment/Dockerfile": "FROM ubuntu:22.04\n",
            "solution/solve.sh": RIGHT,
        }
        is_multi = name.startswith("steps_")
        given = files if is_multi else {**usual, **files}
        for path, text in {"environment/Dockerfile": usual["environment/Dockerfile"], **given}.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(solution if text == RIGHT else text)
    return sorted(root.iterdir())
