"""Python programming, scored by running the answer against the task's tests. The README defines the reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, PositiveFloat, PositiveInt, PrivateAttr

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.isolation.confinement import MIB
from nemo_gym.isolation.execution import IsolationKind, SandboxLimits
from nemo_gym.metrics import key_metrics
from nemo_gym.reward_profile import compute_pass_majority_metrics, compute_subset_metrics
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_failure_reason
from nemo_gym.rows.verdict import read_reward
from nemo_gym.verify.answers import final_text
from nemo_gym.verify.code_blocks import PYTHON_LANGUAGES, complete_programs, final_code
from nemo_gym.verify.code_execution import CodeRunner, CodeVerdict
from resources_servers.code_gen.tasks import (
    CheckedTask,
    FunctionTask,
    Problems,
    ProgramTask,
    Task,
    load_problems,
    read_task,
)


class CompCodingResourcesServerConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS
    RUNS_CODE: ClassVar[bool] = True

    num_processes: PositiveInt | None = None
    """Number of solutions that run concurrently; by default one per core."""
    unit_test_timeout_secs: PositiveFloat = 10.0
    """CPU seconds for each input or call; for test code, for all tests together."""
    require_sandbox: bool = False
    """True to refuse to start on a machine without bubblewrap."""
    python_executable: str | None = None
    """The interpreter for solutions that need packages; the default one offers the standard library only."""
    problems_fpath: str | None = None
    """A JSONL file of problems, for rows that hold only a `task_id`."""
    memory_mib: PositiveInt = 1024
    max_processes: PositiveInt = 64
    """Processes and threads of one solution."""
    max_output_mib: PositiveInt = 4
    float_tolerance: float = Field(default=1e-6, ge=0)
    """Allowed difference of numbers that are not integers, absolute or relative."""
    debug: bool = False
    """Accepted without effect: every verdict includes its reason."""


class CompCodingRunRequest(BaseRunRequest):
    verifier_metadata: dict[str, Any] | None = None


class CompCodingVerifyRequest(CompCodingRunRequest, BaseVerifyRequest):
    pass


class CompCodingVerifyResponse(BaseVerifyResponse):
    verifier_metadata: dict[str, Any] | None
    extracted_model_code: str | None
    """The code in the answer; null when there is none."""
    failure_reason: str | None
    """The reason for a reward of 0: `no_code`, or a `Reason` of `nemo_gym.verify.code_execution`; else null."""
    failure_detail: str | None
    tests_passed: int
    """Tests passed before the first that failed; test code counts as one."""
    isolation: IsolationKind | None
    """The isolation of the code; null when none was run."""
    tamperable: bool
    """True if the code ran beside its tests, so that it could have forged the reward."""
    unit_tests_time_taken: float | None
    difficulty: str | None


NO_CODE = "no_code"


class CompCodingResourcesServer(SimpleResourcesServer):
    config: CompCodingResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    _runner: CodeRunner = PrivateAttr()
    _problems: Problems = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        config = self.config
        self._runner = CodeRunner(
            python=config.python_executable,
            max_concurrency=config.num_processes,
            require_sandbox=config.require_sandbox,
            limits=SandboxLimits(
                memory_bytes=config.memory_mib * MIB,
                processes=config.max_processes,
                output_bytes=config.max_output_mib * MIB,
            ),
            tolerance=config.float_tolerance,
        )
        if config.problems_fpath is not None:
            self._problems = load_problems(Path(config.problems_fpath))

    async def on_start(self) -> None:
        await self._runner.isolation()

    async def check_task(  # type: ignore[override]  # with this environment's own row
        self, body: CompCodingRunRequest
    ) -> None:
        read_task(body.verifier_metadata, self._problems)

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: CompCodingVerifyRequest
    ) -> CompCodingVerifyResponse:
        task = read_task(body.verifier_metadata, self._problems)
        code = final_code(final_text(body.response), PYTHON_LANGUAGES)
        verdict = await self.run_tests(task, code) if code is not None else None
        metadata = body.verifier_metadata or {}
        return CompCodingVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            verifier_metadata=metadata,
            reward=float(verdict is not None and verdict.passed),
            extracted_model_code=code,
            failure_reason=verdict.reason if verdict else NO_CODE,
            failure_detail=verdict.detail if verdict and not verdict.passed else None,
            tests_passed=verdict.tests_passed if verdict else 0,
            isolation=verdict.isolation if verdict else None,
            tamperable=verdict is not None and verdict.tamperable,
            unit_tests_time_taken=verdict.seconds if verdict else None,
            difficulty=metadata.get("difficulty"),
        )

    async def run_tests(self, task: Task, code: str) -> CodeVerdict:
        """Run `code` against the tests of `task`. Raises GymError when there is no verdict."""
        timeout_s = self.config.unit_test_timeout_secs
        match task:
            case ProgramTask(cases):
                return await self._runner.run_programs(code, cases, timeout_s=timeout_s)
            case FunctionTask(name, cases):
                return await self._runner.call_function(code, name, cases, timeout_s=timeout_s)
            case CheckedTask(prompt, tests, style):
                program = complete_programs(prompt, code)
                if style is None:
                    return await self._runner.check(program, tests, timeout_s=timeout_s)
                return await self._runner.check_together(program, tests, style=style, timeout_s=timeout_s)

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        metrics = compute_pass_majority_metrics(tasks, scores_of)[0]
        return metrics | compute_subset_metrics(tasks, "difficulty", scores_of)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return key_metrics(agent_metrics, "pass@1[avg-of-{k}]", "pass@{k}", score_names=["accuracy"])


def scores_of(row: AnyRow) -> dict[str, float | None]:
    """Return the scores for the metrics."""
    return {
        "accuracy": read_reward(row),
        "no_code": float(read_failure_reason(row) == NO_CODE),
        "timed_out": float(read_failure_reason(row) == "timed_out"),
    }


if __name__ == "__main__":
    CompCodingResourcesServer.run_webserver()
