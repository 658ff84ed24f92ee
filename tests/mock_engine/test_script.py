from pathlib import Path
from random import Random

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine._script import read_script
from nemo_gym.mock_engine.conversation import ModelReply, ToolCall

SCRIPT = """
- match: weather
  turns:
    - reasoning: I should look.
      tool_calls:
        - {name: get_weather, arguments: {city: Oslo}}
        - {name: get_weather, arguments: '{"city": '}
    - text: It rains.
- turns: [{text: No script.}]
"""


def test_scenes_are_read_with_texts_reasoning_and_calls(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text(SCRIPT)
    policy = read_script(file)
    asked = {"role": "user", "content": "The weather?"}
    calls = (ToolCall("get_weather", '{"city":"Oslo"}'), ToolCall("get_weather", '{"city": '))
    assert policy.reply([asked], [], Random(0)) == ModelReply("", "I should look.", calls)
    assert policy.reply([asked, {"role": "assistant"}], [], Random(0)) == ModelReply("It rains.")
    assert policy.reply([{"role": "user", "content": "Hello"}], [], Random(0)) == ModelReply("No script.")


def test_everything_wrong_in_a_script_is_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text("- turns: []\n- turns: [{txt: typo}]\n")
    with pytest.raises(ConfigError) as raised:
        read_script(file)
    assert str(file) in raised.value.failure.message
    assert "0.turns" in raised.value.failure.message
    assert "1.turns.0.txt" in raised.value.failure.message


def test_a_missing_script_and_broken_yaml_are_errors_that_name_the_file(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("- [")
    for file in (tmp_path / "gone.yaml", broken):
        with pytest.raises(ConfigError, match=file.name):
            read_script(file)
