"""`ng_dump_config`: the resolved configuration, and the origin of every value."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nemo_gym.cli.command import ConfigCommand, ExitCode, Keys

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig


class DumpConfigKeys(Keys):
    explain: bool = Field(
        False, description="Show the origin of every value and the values that it overrides."
    )
    as_json: bool = Field(False, alias="json", description="Print JSON instead of YAML.")


COMMAND = ConfigCommand(
    name="ng_dump_config",
    summary="Print the resolved configuration of a command line, with secrets hidden.",
    example="ng_dump_config '+config_paths=[configs/math.yaml]' +policy_model_name=my-model +explain=true",
    keys=DumpConfigKeys,
    accepts_keys_of=("e2e_collect_rollouts",),
)


def dump_config(keys: DumpConfigKeys, config: GlobalConfig) -> int:
    if keys.as_json:
        shown = explanations(config) if keys.explain else config.hide_secrets()
        print(json.dumps(shown, indent=2))
    else:
        print("\n".join(yaml_lines(config, keys.explain)))
    return ExitCode.COMPLETE


def explanations(config: GlobalConfig) -> dict[str, Any]:
    """Return `{value, from, written, beat: [{value, from}]}` by dotted path. `beat` holds the overridden values."""
    return {
        each.path: {
            "value": each.value,
            "from": str(each.where),
            **({"written": each.written} if each.written else {}),
            "beat": [
                {"value": overridden.value, "from": str(overridden.where)} for overridden in each.overridden
            ],
        }
        for each in config.provenance.explanations()
    }


def yaml_lines(config: GlobalConfig, explain: bool) -> Iterator[str]:
    """Yield the configuration as YAML with secrets hidden, optionally with a comment on every value."""
    comments = {each.path: f"  # {each}" for each in config.provenance.explanations()} if explain else {}
    return _write_lines(config.hide_secrets(), "", "", comments)


def _write_lines(value: Any, path: str, indent: str, comments: Mapping[str, str]) -> Iterator[str]:
    is_list = isinstance(value, list)
    children = [(f"[{index}]", item) for index, item in enumerate(value)] if is_list else list(value.items())
    for key, below in children:
        place = f"{path}{key}" if is_list or not path else f"{path}.{key}"
        label = "-" if is_list else f"{_scalar(key)}:"
        if isinstance(below, dict | list) and below:
            yield f"{indent}{label}"
            yield from _write_lines(below, place, f"{indent}  ", comments)
        else:
            yield f"{indent}{label} {_scalar(below)}{comments.get(place, '').replace(chr(10), ' ')}"


def _scalar(value: Any) -> str:
    """Return `value` as one line of YAML."""
    import yaml

    text: str = yaml.safe_dump(value, width=sys.maxsize, allow_unicode=True, default_flow_style=True)
    if "\n" in text.strip().removesuffix("\n..."):  # a text of several lines
        return json.dumps(value, ensure_ascii=False)
    return text.removesuffix("...\n").strip()


main = COMMAND.entry_point(dump_config)
