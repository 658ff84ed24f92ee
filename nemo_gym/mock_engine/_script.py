"""The file of a scripted model: scenes, each with the replies of its turns.

    - match: weather            # a text anywhere in the conversation; without `match`: every conversation
      turns:
        - reasoning: I should look.
          tool_calls:
            - {name: get_weather, arguments: {city: Oslo}}     # or a string, sent as it is, valid or not
        - text: It rains in Oslo.
    - turns:
        - text: I have no script for this.

The file is YAML or JSON. The turn number is the number of assistant messages so far. After its last turn a scene
repeats its last reply.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from nemo_gym.config.yaml_text import load_yaml
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine.conversation import ModelReply, ToolCall
from nemo_gym.mock_engine.policies import Scene, ScriptPolicy


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _CallEntry(_Entry):
    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)

    def to_call(self) -> ToolCall:
        written = self.arguments if isinstance(self.arguments, str) else orjson.dumps(self.arguments).decode()
        return ToolCall(self.name, written)


class _ReplyEntry(_Entry):
    text: str = ""
    reasoning: str = ""
    tool_calls: list[_CallEntry] = Field(default_factory=list)

    def to_reply(self) -> ModelReply:
        return ModelReply(self.text, self.reasoning, tuple(call.to_call() for call in self.tool_calls))


class _SceneEntry(_Entry):
    match: str = ""
    turns: list[_ReplyEntry] = Field(min_length=1)


_SCENES = TypeAdapter(list[_SceneEntry])


def read_script(path: Path) -> ScriptPolicy:
    """Read a policy from a script file. Raises ConfigError with every problem in the file."""
    try:
        written = load_yaml(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"Can't read the script {path}: {error}.", code="script_unreadable") from error
    return script_policy(written, source=str(path))


def script_policy(scenes: object, *, source: str = "script") -> ScriptPolicy:
    """Build a policy from scenes as plain data, in the form of the module docstring. Raises ConfigError."""
    try:
        entries = _SCENES.validate_python(scenes)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'file'}: {problem['msg']}" for problem in error.errors()
        )
        raise ConfigError(f"{source}: {problems}.", code="script_invalid") from error
    return ScriptPolicy(
        tuple(Scene(tuple(turn.to_reply() for turn in entry.turns), entry.match) for entry in entries)
    )
