"""What a new environment starts as: a small one that works, with everything an environment has.

The policy looks for a note in drawers. There is a tool, state for each session, fields of the task row and a verifier
to put one's own in the place of. `NAME` stands for the environment's name, `CLASS` for its class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

APP = """\
from fastapi import FastAPI, Request
from pydantic import BaseModel

from nemo_gym.base_resources_server import (
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)


class Task(BaseSeedSessionRequest):  # the fields of a task row that the environment reads
    notes: dict[str, str]


class OpenDrawer(BaseModel):  # the arguments of a tool
    drawer: str


class CLASS(SimpleResourcesServer):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/open_drawer")(self.open_drawer)  # a tool's route is its name
        return app

    async def seed_session(self, request: Request, body: Task) -> BaseSeedSessionResponse:
        request.session["notes"] = body.notes  # every attempt has a session of its own
        return BaseSeedSessionResponse()

    async def open_drawer(self, request: Request, body: OpenDrawer) -> dict[str, str | None]:
        return {"note": request.session["notes"].get(body.drawer)}

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
        (note,) = request.session["notes"].values()
        return BaseVerifyResponse(**dict(body), reward=float(note in body.response.output_text))


if __name__ == "__main__":
    CLASS.run_webserver()
"""

CONFIG = """\
NAME:
  resources_servers:
    NAME:
      entrypoint: app.py
      domain: other
      verified: false
      description: A note lies in one of three drawers; 1 for telling what it says
NAME_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: NAME}
      model_server: {type: responses_api_models, name: policy_model}
      max_steps: 10
      datasets:
      - name: example
        type: example
        jsonl_fpath: resources_servers/NAME/data/example.jsonl
"""

TEST = """\
from pathlib import Path

import pytest

from nemo_gym.testing import call, read_rows, run_environment
from resources_servers.NAME.app import CLASS

EXAMPLES = read_rows(Path(__file__).parents[1] / "data" / "example.jsonl")


@pytest.mark.parametrize("over_http", [False, True])
def test_what_the_note_says_is_rewarded(over_http: bool) -> None:
    for task in EXAMPLES:
        ((drawer, note),) = task["notes"].items()
        turns = [call("open_drawer", drawer=drawer), f"It says: {note}"]
        (row,) = run_environment(CLASS, [task], turns, over_http=over_http)
        assert row["reward"] == 1.0


@pytest.mark.parametrize(
    "turns",
    [
        ["I have not looked."],
        ["It says: feed the cat"],
        [call("open_drawer", drawer="left"), "I will not tell."],
    ],
)
def test_nothing_else_is(turns: list) -> None:
    task = EXAMPLES[0] | {"notes": {"left": "tea at five"}}
    (row,) = run_environment(CLASS, [task], turns)
    assert row["reward"] == 0.0
"""

README = """\
# NAME

A note lies in one of three drawers. The policy opens drawers (`open_drawer(drawer)`) and tells what the note says.

**Reward**: 1 when the policy's answer holds what the note says, else 0.

**A task row** has, beside `responses_create_params`, the field `notes`: drawer → note.

```bash
ng_test +entrypoint=resources_servers/NAME
CONFIGS=resources_servers/NAME/configs/NAME.yaml,responses_api_models/scripted_model/configs/scripted_model.yaml
ng_e2e_collect_rollouts "+config_paths=[$CONFIGS]" +output_jsonl_fpath=results/NAME.jsonl
```

`data/example_gold.yaml` is what a right policy says in each of the example tasks.
"""


class _Note(NamedTuple):
    reader: str
    drawer: str
    text: str


_DRAWERS = ("left", "middle", "right")
_NOTES = (
    _Note("Ada", "left", "tea at five"),
    _Note("Bela", "middle", "the key is under the mat"),
    _Note("Cyril", "left", "feed the cat"),
    _Note("Dora", "right", "call your sister"),
    _Note("Emil", "left", "buy more paper"),
)


def examples() -> list[Mapping[str, object]]:
    """Five task rows."""
    parameters = {
        "type": "object",
        "properties": {"drawer": {"type": "string", "enum": list(_DRAWERS)}},
        "required": ["drawer"],
        "additionalProperties": False,
    }
    tool = {
        "type": "function",
        "name": "open_drawer",
        "description": "Open one of the drawers and see what is in it.",
        "parameters": parameters,
        "strict": True,
    }
    return [
        {
            "responses_create_params": {
                "input": [{"role": "user", "content": _question(note)}],
                "tools": [tool],
            },
            "notes": {note.drawer: note.text},
        }
        for note in _NOTES
    ]


def gold() -> str:
    """The script of a policy that solves the five."""
    scenes = (
        f"- match: {json.dumps(_question(note))}\n"
        "  turns:\n"
        f"  - tool_calls: [{{name: open_drawer, arguments: {{drawer: {note.drawer}}}}}]\n"
        f"  - text: {json.dumps(f'It says: {note.text}')}\n"
        for note in _NOTES
    )
    return "# What a right policy says in each example task, turn by turn.\n" + "".join(scenes)


def _question(note: _Note) -> str:
    where = f"A note to {note.reader} lies in one of three drawers: left, middle or right."
    return f"{where} Find it and tell what it says."
