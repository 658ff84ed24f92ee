"""An agent that is any program: each attempt runs a command in a sandbox, whose model calls go to the model server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import orjson
from fastapi import Body, HTTPException, Request
from fastapi import Response as HttpResponse
from pydantic import Field, PositiveFloat, PositiveInt, PrivateAttr, model_validator

from nemo_gym.agents.policy import input_items
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config.current import read_run_value
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.episodes.driver import Act, Episode
from nemo_gym.failures import AgentError, build_error
from nemo_gym.isolation.confinement import MIB
from nemo_gym.isolation.execution import SandboxLimits
from nemo_gym.names import MCP_METADATA_KEY
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.processes.workers import available_cores
from nemo_gym.protocol.task_folders import FOLDER_FILES_KEY, TaskWithFolder
from nemo_gym.rows.models import read_task
from nemo_gym.rows.verdict import EndReason
from nemo_gym.sandbox.config import resolve_provider_config, resolve_provider_metadata
from nemo_gym.transport.context import current_context
from responses_api_agents.external_agent.attempt import (
    PORT,
    AgentCommand,
    AgentExit,
    AgentSandbox,
    AttemptPlaces,
    ConfinedSandbox,
)
from responses_api_agents.external_agent.container import (
    CONTAINER_PROVIDERS,
    ContainerOptions,
    ContainerSandbox,
)
from responses_api_agents.external_agent.folder import TakenFiles, take_files
from responses_api_agents.external_agent.gateway import MCP_PATH, AttemptGateway, GatewayTargets
from responses_api_agents.external_agent.record import AttemptRecord
from responses_api_agents.external_agent.tool_failures import ToolFailures

USUAL_ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "{key}",
    "ANTHROPIC_BASE_URL": "{base_url}",
    "HOME": "{home}",
    "LANG": "C.UTF-8",
    "NEMO_GYM_MCP_URL": "{mcp_url}",
    "NO_COLOR": "1",
    "OPENAI_API_KEY": "{key}",
    "OPENAI_BASE_URL": "{base_url}/v1",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "USER": "agent",
}
"""The environment of every agent, to which `environment` of its configuration is added."""
_REPORTED_CHARS = 2000
_KEY_OUTLIVES_S = 60.0
_CERTIFICATES = Path("/etc/ssl/certs")


class ExternalAgentConfig(BaseResponsesAPIAgentConfig):
    RUNS_CODE: ClassVar[bool] = True

    resources_server: ResourcesServerRef
    model_server: ModelServerRef
    command: list[str] = Field(min_length=1)
    """The program and its arguments. `{prompt}`, `{system}`, `{base_url}`, `{key}`, `{mcp_url}`, `{model}`, `{work}`
    and `{home}` are filled in, here and in the next three options."""
    stdin: str = ""
    environment: dict[str, str | None] = Field(default_factory=dict)
    """Variables beside the usual ones (README); null takes one away."""
    files: dict[str, str] = Field(default_factory=dict)
    """Path → text of files in the agent's home folder, such as its configuration."""
    readable: list[str] = Field(default_factory=list)
    """Folders that the sandbox shows read-only, beside /usr or the image: the agent's installation."""
    sandbox_provider: str | dict[str, Any] | None = None
    """`docker` or `podman` with its options, or the name of a top-level block; None for the isolation of the gym."""
    sandbox_image: str | None = None
    """The image of the containers, which must be on this machine."""
    model: str = "policy"
    """The name under which the agent asks for the model."""
    model_name: str | None = None
    """The name that the model server gets in every call; None for the agent's own."""
    sampling: dict[str, float] | None = None
    """Sampling fields that replace those of every call, such as `temperature`."""
    timeout_s: PositiveFloat = 600.0
    max_calls: PositiveInt | None = None
    """Model calls of one attempt; further ones are refused, and the attempt is truncated."""
    max_sampled_tokens: PositiveInt | None = None
    final_message: Literal["trace", "stdout"] = "trace"
    """`stdout` adds the agent's output as the last message, for verifiers that read the answer there."""
    max_concurrent_attempts: PositiveInt | None = None
    """Agents that run at the same time; by default four per core."""
    memory_mib: PositiveInt = 4096
    max_processes: PositiveInt = 512
    """Processes and threads of one agent."""
    max_folder_mib: PositiveInt = 256
    """Files of one agent together, and its private /tmp."""
    max_output_mib: PositiveInt = 16

    @model_validator(mode="after")
    def _check_containers(self) -> Self:
        if (self.sandbox_provider is None) != (self.sandbox_image is None):
            raise ValueError("`sandbox_provider` and `sandbox_image` belong together")
        given = self.sandbox_provider
        block = read_run_value(given) if isinstance(given, str) else given
        if block is None:  # no containers, or a block whose absence is reported elsewhere
            return self
        (name,) = resolve_provider_config(block)
        if name not in CONTAINER_PROVIDERS:
            raise ValueError(f"`sandbox_provider` can be {' or '.join(CONTAINER_PROVIDERS)} here, not {name}")
        if strange := [path for path in self.readable if ":" in path]:
            raise ValueError(f"`readable`: {', '.join(strange)} has a colon and cannot be mounted")
        return self


class ExternalAgent(SimpleResponsesAPIAgent):
    config: ExternalAgentConfig
    _limits: SandboxLimits = PrivateAttr()
    _sandbox: AgentSandbox = PrivateAttr()
    _slots: asyncio.Semaphore = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        config = self.config
        self._limits = SandboxLimits(
            wall_s=config.timeout_s,
            memory_bytes=config.memory_mib * MIB,
            limits_address_space=False,
            file_bytes=config.max_folder_mib * MIB,
            folder_bytes=config.max_folder_mib * MIB,
            output_bytes=config.max_output_mib * MIB,
            processes=config.max_processes,
            open_files=4096,
        )
        most = config.max_concurrent_attempts or 4 * available_cores()
        self._sandbox = self._new_sandbox(self._limits, most)
        self._slots = asyncio.Semaphore(most)

    def _new_sandbox(self, limits: SandboxLimits, most_attempts: int) -> AgentSandbox:
        config = self.config
        readable = [path for path in map(Path, config.readable) if path.exists()]
        if config.sandbox_provider is None or config.sandbox_image is None:
            certificates = [_CERTIFICATES] if _CERTIFICATES.exists() else []
            return ConfinedSandbox([*readable, *certificates], limits)
        blocks = self.server_client.global_config_dict
        ((provider, options),) = resolve_provider_config(config.sandbox_provider, blocks).items()
        labels = resolve_provider_metadata(config.sandbox_provider, blocks)
        return ContainerSandbox(
            ContainerOptions(
                provider, options or {}, config.sandbox_image, labels, readable, limits, most_attempts
            )
        )

    async def on_start(self) -> None:
        await super().on_start()
        await self._sandbox.start()

    async def on_stop(self) -> None:
        await super().on_stop()
        await self._sandbox.stop()

    async def responses(
        self, request: Request, response: HttpResponse, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        raise HTTPException(501, "an external agent needs a task row: call its /run")

    async def act(self, episode: Episode) -> Act:
        folder = read_task(TaskWithFolder, episode.row).folder
        context = current_context.get()
        assert context is not None  # `/run` is always a request
        name = context.session + (
            f".{episode.turn}" if episode.turn else ""
        )  # a turn has a record of its own
        record = AttemptRecord(self.server_client, self.config.model_server.name, name)
        async with self._slots:
            sandbox = await self._find_sandbox(episode)
            async with sandbox.places(folder.files) as places:
                gateway = await self._open_gateway(episode, record)
                try:
                    exit_ = await self._run(episode, sandbox, places, gateway)
                finally:
                    trace = await record.seal()
                taken = await asyncio.to_thread(take_files, places.work, folder.takes)
        if folder.take:
            episode.row[FOLDER_FILES_KEY] = taken.files
        return self._act_of(gateway, exit_, taken, trace)

    async def _find_sandbox(self, episode: Episode) -> AgentSandbox:
        """Return the sandbox of the attempt: its task's, if the environment has started one."""
        access = _opening_of(episode).get("sandbox_access")
        if access is None:
            return self._sandbox
        from responses_api_agents.external_agent.task_sandbox import TaskSandbox

        given_s = min(self.config.timeout_s, episode.agent_timeout_s or self.config.timeout_s)
        return await TaskSandbox.connect(access, replace(self._limits, wall_s=given_s))

    async def _open_gateway(self, episode: Episode, record: AttemptRecord) -> AttemptGateway:
        config = self.config
        key, path = await record.open(
            model=config.model_name,
            sampling=config.sampling,
            max_calls=config.max_calls,
            max_sampled_tokens=config.max_sampled_tokens,
            expires_s=config.timeout_s + _KEY_OUTLIVES_S,
        )
        endpoint = _opening_of(episode).get(MCP_METADATA_KEY) or {}
        token = next(iter((endpoint.get("headers") or {}).values()), None)
        targets = GatewayTargets(key, config.model_server.name, path, self.resources_server_name, token)
        tools = ToolFailures(episode.params.get("tools"))
        return AttemptGateway(self.server_client, targets, tools)

    async def _run(
        self, episode: Episode, sandbox: AgentSandbox, places: AttemptPlaces, gateway: AttemptGateway
    ) -> AgentExit:
        forwards = await sandbox.forwards()
        async with gateway.listening(places.socket if forwards else None) as port:
            if forwards:
                places.open_socket()
            base_url = f"http://127.0.0.1:{PORT if forwards else port}"
            written = self._written_command()
            command = written.filled(
                {
                    **_texts_of(episode.params),
                    "base_url": base_url,
                    "mcp_url": base_url + MCP_PATH,
                    "key": gateway.targets.key,
                    "model": self.config.model,
                    "work": places.seen(places.work),
                    "home": places.seen(places.home),
                }
            )
            places.put_home(command.files)
            return await sandbox.run(places, command)

    def _written_command(self) -> AgentCommand:
        config = self.config
        usual: dict[str, str | None] = {**USUAL_ENVIRONMENT}
        if config.sandbox_image is not None:
            del usual["PATH"]  # the image has its own
        environment = {
            name: value for name, value in {**usual, **config.environment}.items() if value is not None
        }
        return AgentCommand(config.command, config.stdin, environment, config.files)

    def _act_of(
        self, gateway: AttemptGateway, exit_: AgentExit, taken: TakenFiles, trace: dict[str, Any] | None
    ) -> Act:
        _refuse_machine_faults(self.config.command[0], gateway, exit_)
        reason = exit_.reason
        if reason is not EndReason.TIMED_OUT and (gateway.is_over_budget or gateway.has_spent_budget):
            reason = EndReason.BUDGET if gateway.has_spent_budget else EndReason.MAX_STEPS
        notes = {
            "status": exit_.status,
            "ending": exit_.ending.value,
            "seconds": round(exit_.seconds, 3),
            "calls": gateway.calls,
            "isolation": exit_.isolation,
            "stderr": exit_.stderr[-_REPORTED_CHARS:],
            "left_out": taken.left_out,
        }
        response = trace or Act.build_empty_response(self.config.model)
        if self.config.final_message == "stdout" or not response["output"]:
            response["output"].append(_message(exit_.stdout))
        return Act(response, reason, notes={"external_agent": notes, **gateway.tools.notes})


def _opening_of(episode: Episode) -> dict[str, Any]:
    """The environment's answer when the session was opened; empty if it is no JSON object."""
    try:
        found = orjson.loads(episode.seed.body if episode.seed is not None else b"")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _refuse_machine_faults(program: str, gateway: AttemptGateway, exit_: AgentExit) -> None:
    """Raise if the machine, and not the policy, is the reason for the end."""
    if exit_.reason is EndReason.FINAL_ANSWER:
        return
    if gateway.failure is not None:
        raise build_error(gateway.failure)
    if not gateway.calls:
        said = exit_.stderr.strip() or exit_.stdout.strip()
        raise AgentError(
            f"{program} ended without a model call ({exit_.ending}, status {exit_.status}): {said[-_REPORTED_CHARS:]}",
            code="agent_made_no_call",
            remedy="Run the command by hand, and check `command`, `environment` and `readable` of the agent.",
        )


def _texts_of(params: dict[str, Any]) -> dict[str, str]:
    """The prompt and the system text of a task, for an agent that takes both as text."""
    items = input_items(params["input"])
    system = [_text(item) for item in items if item.get("role") in ("system", "developer")]
    prompt = [_text(item) for item in items if item.get("role") == "user"]
    instructions = params.get("instructions")
    return {
        "prompt": "\n\n".join(prompt),
        "system": "\n\n".join([instructions, *system] if instructions else system),
    }


def _text(item: dict[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or ())


def _message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_agent",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


if __name__ == "__main__":
    ExternalAgent.run_webserver()
