"""Repair of a small repository, scored by calls of its functions in a fresh copy. The README defines the reward."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fastapi import FastAPI, HTTPException, Request
from pydantic import AfterValidator, BaseModel, PositiveFloat, PositiveInt, PrivateAttr

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.isolation.confinement import MIB
from nemo_gym.isolation.execution import IsolationKind, SandboxLimits
from nemo_gym.protocol.task_folders import TaskFolder, check_relative_path
from nemo_gym.server_utils import SESSION_ID_KEY
from nemo_gym.verify.code_execution import CallCase, CodeRunner, CodeVerdict
from resources_servers.code_repair import in_memory
from resources_servers.code_repair.tasks import RepairTask

UNCHANGED = "unchanged"
LONGEST_FILE = 256 * 1024
MOST_FILES = 200
_TEST_OUTPUT_CHARS = 8000
_LOADER = Path(in_memory.__file__).read_text(encoding="utf-8")
_RUN_TESTS = "import unittest; unittest.main(None, argv=['', 'discover', '-s', 'tests', '-t', '.'])"


class CodeRepairConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS
    RUNS_CODE: ClassVar[bool] = True

    num_processes: PositiveInt | None = None
    """Number of repositories that are judged, or whose tests run, concurrently; by default one per core."""
    case_timeout_s: PositiveFloat = 5.0
    """CPU seconds of each case."""
    run_tests_timeout_s: PositiveFloat = 20.0
    """CPU seconds of the tool `run_tests`."""
    require_sandbox: bool = False
    """True to refuse to start on a machine without bubblewrap."""
    memory_mib: PositiveInt = 512


class CodeRepairRow(BaseModel):
    """The fields that the environment adds to a task row."""

    verifier_metadata: RepairTask
    folder: TaskFolder
    folder_files: dict[str, str] | None = None
    """The files of an agent that works in a folder of its own."""


class CodeRepairSeedRequest(CodeRepairRow, BaseSeedSessionRequest):
    pass


class CodeRepairVerifyRequest(CodeRepairRow, BaseVerifyRequest):
    pass


class CodeRepairVerifyResponse(BaseVerifyResponse):
    folder_files: dict[str, str]
    """The source files that were judged, where they differ from the task's."""
    failure_reason: str | None
    """The reason for a reward of 0: `unchanged`, or a `Reason` of `nemo_gym.verify.code_execution`; else null."""
    failure_detail: str | None
    cases_passed: int
    """Cases passed before the first that failed."""
    isolation: IsolationKind | None


class FilePath(BaseModel):
    path: Annotated[str, AfterValidator(check_relative_path)]


class WrittenFile(FilePath):
    content: str


class CodeRepairResourcesServer(SimpleResourcesServer):
    config: CodeRepairConfig
    reads_tokens: ClassVar[bool] = False

    _runner: CodeRunner = PrivateAttr()
    _files: dict[str, dict[str, str]] = PrivateAttr(default_factory=dict)
    """Session → the files of its repository."""
    _written: dict[str, set[str]] = PrivateAttr(default_factory=dict)
    """Session → the paths that were written with the tools."""

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        config = self.config
        self._runner = CodeRunner(
            max_concurrency=config.num_processes,
            require_sandbox=config.require_sandbox,
            limits=SandboxLimits(memory_bytes=config.memory_mib * MIB),
        )

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/list_files")(self.list_files)
        app.post("/read_file")(self.read_file)
        app.post("/write_file")(self.write_file)
        app.post("/run_tests")(self.run_tests)
        return app

    async def on_start(self) -> None:
        await self._runner.isolation()

    async def seed_session(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: CodeRepairSeedRequest
    ) -> BaseSeedSessionResponse:
        session = request.session[SESSION_ID_KEY]
        self._files[session], self._written[session] = dict(body.folder.files), set()
        return BaseSeedSessionResponse()

    async def release_session(self, session_id: str) -> None:
        self._files.pop(session_id, None)
        self._written.pop(session_id, None)

    async def list_files(self, request: Request) -> dict[str, list[str]]:
        """List the paths of all files in the repository."""
        return {"files": sorted(self._files_of(request))}

    async def read_file(self, request: Request, body: FilePath) -> dict[str, str]:
        """Return the text of a file."""
        files = self._files_of(request)
        if body.path not in files:
            raise HTTPException(404, f"there is no file {body.path!r}")
        return {"content": files[body.path]}

    async def write_file(self, request: Request, body: WrittenFile) -> dict[str, int]:
        """Replace the text of a file, or make a new one."""
        files = self._files_of(request)
        if len(body.content) > LONGEST_FILE:
            raise HTTPException(413, f"a file may have {LONGEST_FILE} characters")
        if body.path not in files and len(files) >= MOST_FILES:
            raise HTTPException(413, f"a repository may have {MOST_FILES} files")
        files[body.path] = body.content
        self._written[request.session[SESSION_ID_KEY]].add(body.path)
        return {"characters": len(body.content)}

    async def run_tests(self, request: Request) -> dict[str, Any]:
        """Run the tests in the repository and return their output."""
        files = self._files_of(request)
        try:
            done = await self._runner.run_in_folder(
                _RUN_TESTS, files, timeout_s=self.config.run_tests_timeout_s
            )
        except (OSError, ValueError) as error:
            raise HTTPException(422, f"these files cannot be written together: {error}") from error
        output = (done.stdout + done.stderr).decode(errors="replace")
        return {
            "passed": done.exit_status == 0,
            "ending": done.ending,
            "output": output[-_TEST_OUTPUT_CHARS:],
        }

    def _files_of(self, request: Request) -> dict[str, str]:
        session = request.session[SESSION_ID_KEY]
        if session not in self._files:
            raise HTTPException(409, f"session {session} was not opened with /seed_session")
        return self._files[session]

    async def verify(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: CodeRepairVerifyRequest
    ) -> CodeRepairVerifyResponse:
        task = body.verifier_metadata
        session = request.session[SESSION_ID_KEY]
        by_tools = {path: self._files[session][path] for path in self._written.get(session, ())}
        changed = self._changed(body, {**(body.folder_files or {}), **by_tools})
        verdict = await self._judge(task, {**body.folder.files, **changed}) if changed else None
        return CodeRepairVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=float(verdict is not None and verdict.passed),
            folder_files=changed,
            failure_reason=verdict.reason if verdict else UNCHANGED,
            failure_detail=verdict.detail if verdict and not verdict.passed else None,
            cases_passed=verdict.tests_passed if verdict else 0,
            isolation=verdict.isolation if verdict else None,
        )

    def _changed(self, body: CodeRepairVerifyRequest, found: Mapping[str, str]) -> dict[str, str]:
        """The allowed source files that differ from the task's."""
        return {
            path: found[path]
            for path in body.verifier_metadata.source_files
            if path in found
            and found[path] != body.folder.files.get(path)
            and len(found[path]) <= LONGEST_FILE
        }

    async def _judge(self, task: RepairTask, files: Mapping[str, str]) -> CodeVerdict:
        """Judge a repository whose files are the task's own but for the allowed ones."""
        packages = {path: text for path, text in files.items() if not path.startswith("tests/")}
        source = f"{_LOADER}\nuse({packages!r})\n"
        cases = [CallCase([case.call, *case.arguments], [case.expected]) for case in task.cases]
        return await self._runner.call_function(source, "call", cases, timeout_s=self.config.case_timeout_s)


if __name__ == "__main__":
    CodeRepairResourcesServer.run_webserver()
