"""`ng_reverify`: score stored rollouts again, without a policy."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from nemo_gym.cli.collect_rollouts import COMMAND as COLLECT
from nemo_gym.cli.collect_rollouts import OutputKeys, run_in_loop, run_until_stopped
from nemo_gym.cli.command import ConfigCommand, ExitCode, KeysT
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.run.options import LimitOptions
from nemo_gym.rows.compose import AGENT_TYPE

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.config.options import Inspect
    from nemo_gym.rollouts.lookback.reverify import ReverifySettings, Survey
    from nemo_gym.rollouts.lookback.stored import StoredRun


class ReverifyKeys(LimitOptions, OutputKeys):
    input_jsonl_fpath: str = Field(
        description="The scored rows of a run, beside its other files; with another `input_format`, "
        "trajectories."
    )
    input_format: Literal["rows", "atif", "verifiers"] = Field(
        "rows",
        description="`atif`: the input is a trajectory (.json), lines of them, or a folder of Harbor's trials; "
        "`verifiers`: its traces.jsonl.",
    )
    task_rows: str | None = Field(
        None,
        description="For trajectories: the dataset whose rows have what the verifier needs, found by the "
        "`task_id`, `id`, `name` or `uuid` of a trajectory's task. Trajectories that this gym exported have it.",
    )
    judge_failed_only: bool = Field(
        False, description="Keep existing rewards, and verify only rollouts whose judge failed."
    )
    force: bool = Field(
        False,
        description="Verify also with environments that do not declare that they need no session.",
    )
    num_samples_in_parallel: int = Field(64, ge=1, description="Rollouts verified at once.")
    allow_identity_change: bool = Field(
        False, description="Resume even if rows, configuration or code have changed."
    )
    mark_new_code: bool = Field(
        False,
        description="Resume even if code has changed, and mark the rows that the new code scores with `_ng_scored_by`.",
    )
    mark_new_engine: bool = Field(
        False,
        description="Resume even if another engine answers for a judge, and mark the new rows with `_ng_scored_by`.",
    )
    placement: Literal["process", "inline"] = Field(
        "process", description="Run each server in its own process, or all of them in this one."
    )


NOT_SET = "http://not-set.invalid/v1"
_POLICY = {"policy_base_url": NOT_SET, "policy_api_key": "none", "policy_model_name": "none"}
_POLICY_MODEL = f"{{entrypoint: app.py, base_url: '{NOT_SET}', api_key: none, model: none}}"


@dataclass(frozen=True, kw_only=True)
class PolicyFreeCommand(ConfigCommand[KeysT]):
    """A command whose configuration may leave out the policy, because the policy is not started."""

    def _load(self, arguments: Sequence[str], inspect: Inspect) -> tuple[KeysT, GlobalConfig]:
        return super()._load([*arguments, *_stand_ins(arguments)], inspect)


def _stand_ins(arguments: Sequence[str]) -> list[str]:
    """Return overrides for the parts of the policy that the configuration lacks."""
    from nemo_gym.config.loading import outline
    from nemo_gym.config.problems import Problems

    given = outline(arguments, Path.cwd(), Problems())
    if not given:
        return []  # it cannot be read, and the load reports why
    added = [f"++{key}={value}" for key, value in _POLICY.items() if key not in given]
    if "policy_model" not in given:
        added.append(f"++policy_model={{responses_api_models: {{vllm_model: {_POLICY_MODEL}}}}}")
    return added


def require_models(part: GlobalConfig) -> None:
    """Raise `ConfigError` if a server that verifies needs the policy, such as a judge, and it is not configured."""
    needing = [server.name for server in part.servers if NOT_SET in str(part.data[server.name])]
    verifying = [block for server in part.servers if AGENT_TYPE not in (block := part.data[server.name])]
    if needing and _may_call(verifying, needing):
        raise ConfigError(
            f"verification calls the model server {', '.join(f'`{name}`' for name in needing)}, which has no URL",
            code="model_missing",
            remedy="Add responses_api_models/vllm_model/configs/vllm_model.yaml to config_paths, and write "
            "--url <value> (gym) or +policy_base_url=<value>.",
        )


def _may_call(server: Any, models: Sequence[str]) -> bool:
    """Return whether a server refers to one of `models`, and not as the judge that it does not use."""
    if not isinstance(server, Mapping):
        return isinstance(server, list | tuple) and any(_may_call(each, models) for each in server)
    has_judge = server.get("should_use_judge", True)
    return server.get("name") in models or any(
        _may_call(value, models)
        for key, value in server.items()
        if has_judge or not str(key).startswith("judge_")
    )


COMMAND = PolicyFreeCommand(
    name="ng_reverify",
    summary="Score stored rollouts again by their current environments, without a policy model.",
    example="ng_reverify '+config_paths=[configs/math.yaml]' +input_jsonl_fpath=results/rollouts.jsonl "
    "+output_jsonl_fpath=results/reverified.jsonl",
    keys=ReverifyKeys,
    exit_codes={**COLLECT.exit_codes, ExitCode.PARTIAL: "some rollouts have no reward; see the failures"},
)


def reverify_rollouts(keys: ReverifyKeys, config: GlobalConfig) -> int:
    from nemo_gym.rollouts.lookback.reverify import ReverifySettings, Survey, servers_for
    from nemo_gym.rollouts.lookback.stored import StoredRun
    from nemo_gym.rollouts.output.files import RunFiles
    from nemo_gym.rollouts.output.manifest import AllowedChanges
    from nemo_gym.rollouts.run.required_servers import require_agents

    settings = ReverifySettings(
        output=Path(keys.output_jsonl_fpath),
        judge_failed_only=keys.judge_failed_only,
        force=keys.force,
        existing=keys.decide_existing(),
        allowed=AllowedChanges(
            keys.allow_identity_change, code=keys.mark_new_code, engine=keys.mark_new_engine
        ),
        limits=keys.limits,
        stop_after_identical_failures=keys.stop_after_identical_failures,
    )
    stored = StoredRun(_find_input(keys, config))
    RunFiles.from_output(settings.output).refuse_inputs(stored.files.present())
    survey = Survey.from_run(stored)
    agents = set(survey.verifiable.values())
    require_agents(agents, config.data)
    names = servers_for(agents, config.data)
    part = replace(
        config,
        servers=tuple(server for server in config.servers if server.name in names),
        code_runners=tuple(name for name in config.code_runners if name in names),
    )
    require_models(part)
    code = run_in_loop(_reverify(settings, stored, survey, part, keys))
    stored.close()
    return code


def _find_input(keys: ReverifyKeys, config: GlobalConfig) -> Path:
    """Return the file of scored rows. That of trajectories is made, beside the output. Raises ConfigError."""
    given = Path(keys.input_jsonl_fpath)
    if keys.input_format == "rows":
        if keys.task_rows is not None:
            raise ConfigError("`task_rows` needs `input_format=atif` or `verifiers`", code="no_trajectories")
        return given
    from nemo_gym.rollouts.lookback.trajectories import read_rows, read_task_rows
    from nemo_gym.rollouts.output.files import find_stem
    from nemo_gym.rollouts.output.inputs import refuse_inputs
    from nemo_gym.rollouts.plan.dataset import locate

    tasks = read_task_rows(locate(Path(keys.task_rows))) if keys.task_rows is not None else {}
    found = read_rows(given, tasks, _find_agent(config))
    output = Path(keys.output_jsonl_fpath)
    rows = output.with_name(f"{find_stem(output)}_trajectories.jsonl")
    refuse_inputs([rows], [given])
    found.write(rows)
    print(f"{given}: {found.describe()}; their rows are in {rows}", file=sys.stderr)
    return rows


def _find_agent(config: GlobalConfig) -> str:
    """Return the agent whose environment verifies foreign trajectories: the only one. Raises ConfigError."""
    names = [server.name for server in config.servers if AGENT_TYPE in config.data[server.name]]
    if len(names) != 1:
        raise ConfigError(
            f"the configuration has the agents {', '.join(names) or 'none'}, and trajectories need one",
            code="several_agents",
            remedy="Verify the trajectories of each environment with its own configuration.",
        )
    return names[0]


async def _reverify(
    settings: ReverifySettings, stored: StoredRun, survey: Survey, part: GlobalConfig, keys: ReverifyKeys
) -> int:
    """Start the servers, verify, and stop them. Returns the exit code."""
    from nemo_gym.launch.reporting import Reporter
    from nemo_gym.launch.serving import running
    from nemo_gym.rollouts.lookback.reverify import reverify
    from nemo_gym.rollouts.run.discovery import DiscoveredGym

    reporter = Reporter(lambda: sys.stderr)
    async with running(
        part, reporter, began=time.monotonic(), fork_server=None, placement=keys.placement
    ) as placed:
        await placed.wait_ready()
        gym = DiscoveredGym(placed.config, placed.token, placed.transport)
        work = partial(reverify, settings, stored, survey)
        return await run_until_stopped(work, gym, as_json=keys.as_json)


main = COMMAND.entry_point(reverify_rollouts)
