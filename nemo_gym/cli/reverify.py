"""`ng_reverify`: score stored rollouts again, without a policy."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from nemo_gym.cli.collect_rollouts import COMMAND as COLLECT
from nemo_gym.cli.command import ConfigCommand, ExitCode, Keys

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.config.servers import ServerInstance
    from nemo_gym.rollouts.lookback.reverify import ReverifySettings, Survey
    from nemo_gym.rollouts.lookback.stored import StoredRun
    from nemo_gym.rollouts.run.discovery import DiscoveredGym
    from nemo_gym.rollouts.run.summary import CollectSummary


class ReverifyKeys(Keys):
    input_jsonl_fpath: str = Field(description="The scored rows of a run, beside its other files.")
    output_jsonl_fpath: str = Field(description="The file for the rows with their new rewards.")
    judge_failed_only: bool = Field(
        False, description="Keep existing rewards, and verify only rollouts whose judge failed."
    )
    force: bool = Field(
        False,
        description="Verify also with environments that do not declare that they need no session.",
    )
    num_samples_in_parallel: int = Field(64, ge=1, description="Rollouts verified at once.")
    max_attempts: int = Field(3, ge=1, description="Attempts at a verification whose failures are temporary.")
    rollout_timeout_s: float | None = Field(
        1800.0, gt=0, description="Seconds that a verification may take; null for no limit."
    )
    stop_after_identical_failures: int = Field(
        20, ge=0, description="Stop after this number of consecutive identical failures; 0 for never."
    )
    resume_from_cache: bool = Field(False, description="Continue the run in the output, if there is one.")
    overwrite: bool = Field(False, description="Move the files of an earlier run aside and start a new run.")
    allow_identity_change: bool = Field(
        False, description="Resume even if rows, configuration or code have changed."
    )
    placement: Literal["process", "inline"] = Field(
        "process", description="Run each server in its own process, or all of them in this one."
    )
    as_json: bool = Field(False, alias="json", description="Print the summary as JSON instead of a table.")


COMMAND = ConfigCommand(
    name="ng_reverify",
    summary="Score stored rollouts again by their current environments, without a policy model.",
    example="ng_reverify '+config_paths=[configs/math.yaml]' +input_jsonl_fpath=results/rollouts.jsonl "
    "+output_jsonl_fpath=results/reverified.jsonl",
    keys=ReverifyKeys,
    exit_codes={**COLLECT.exit_codes, ExitCode.PARTIAL: "some rollouts have no reward; see the failures"},
)


@dataclass(frozen=True, slots=True)
class PartialConfig:
    """A configuration of which only some servers are started."""

    whole: GlobalConfig
    names: Collection[str]

    @property
    def servers(self) -> list[ServerInstance]:
        return [server for server in self.whole.servers if server.name in self.names]

    @property
    def data(self) -> dict[str, Any]:
        return self.whole.data

    def is_given(self, path: str) -> bool:
        return self.whole.is_given(path)


def reverify_rollouts(keys: ReverifyKeys, config: GlobalConfig) -> int:
    from nemo_gym.cli.collect_rollouts import existing_of, run_in_loop, show
    from nemo_gym.rollouts.lookback.reverify import ReverifySettings, Survey, servers_for
    from nemo_gym.rollouts.lookback.stored import StoredRun
    from nemo_gym.rollouts.output.files import RunFiles
    from nemo_gym.rollouts.run.collector import RunLimits
    from nemo_gym.rollouts.run.required_servers import require_agents

    settings = ReverifySettings(
        output=Path(keys.output_jsonl_fpath),
        judge_failed_only=keys.judge_failed_only,
        force=keys.force,
        existing=existing_of(keys.resume_from_cache, keys.overwrite),
        allow_identity_change=keys.allow_identity_change,
        limits=RunLimits(
            in_parallel=keys.num_samples_in_parallel,
            max_attempts=keys.max_attempts,
            rollout_timeout_s=keys.rollout_timeout_s,
        ),
        stop_after_identical_failures=keys.stop_after_identical_failures,
    )
    stored = StoredRun(Path(keys.input_jsonl_fpath))
    RunFiles.of(settings.output).refuse_inputs(stored.files.present())
    survey = Survey.of(stored)
    agents = set(survey.verifiable.values())
    require_agents(agents, config.data)
    part = PartialConfig(config, servers_for(agents, config.data))
    summary = run_in_loop(_reverify(settings, stored, survey, part, inline=keys.placement == "inline"))
    stored.close()
    show(summary, as_json=keys.as_json)
    return summary.exit_code


async def _reverify(
    settings: ReverifySettings, stored: StoredRun, survey: Survey, part: PartialConfig, *, inline: bool
) -> CollectSummary:
    """Start the servers, verify, and stop them."""
    from nemo_gym.launch.reporting import Reporter
    from nemo_gym.launch.serving import running
    from nemo_gym.rollouts.run import discovery

    if inline:
        from nemo_gym.launch.inline import inline as placed_inline

        async with placed_inline(part) as placed:
            seen = discovery.DiscoveredGym(placed.config, placed.token, placed.transport)
            return await _verify_in(settings, stored, survey, seen)
    reporter = Reporter(lambda: sys.stderr)
    async with running(part, reporter, began=time.monotonic(), fork_server=None) as gym:
        await gym.wait_ready()
        return await _verify_in(settings, stored, survey, discovery.DiscoveredGym(gym.config, gym.token))


async def _verify_in(
    settings: ReverifySettings, stored: StoredRun, survey: Survey, gym: DiscoveredGym
) -> CollectSummary:
    from nemo_gym.rollouts.lookback.reverify import reverify
    from nemo_gym.rollouts.run.progress import display_for
    from nemo_gym.rollouts.run.stopping import Stop, stop_on_signals

    caller, stop = gym.caller(), Stop()
    try:
        with stop_on_signals(stop):
            display = display_for(sys.stderr)
            return await reverify(settings, stored, survey, caller, gym, stop=stop, display=display)
    finally:
        await caller.transport.close()


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(COMMAND.run(argv, reverify_rollouts))
