"""The process that talks to Ray for the launcher. Ray never runs in the launcher, and only this module imports it.

`python -m nemo_gym.launch.nodes.ray_driver` reads requests from standard input and writes answers and events to
standard output, each a line of JSON. On every node it starts an actor whose only work is to start a node host as its
child, to pass on its output, and to end with it. An actor, a node host and all reservations end with this process,
which ends with the launcher.

The class of the actor is pickled by value, because this module is `__main__`. So the Python of Ray's workers needs
no nemo_gym; the node host runs in the launcher's own interpreter, as on other hosts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any, BinaryIO, TypeAlias

from nemo_gym.processes._ending import end_with_parent

Json: TypeAlias = dict[str, Any]

AUTO = "auto"
REMEDY = (
    "Start it with `ray start --head`, or name it: +ray_address=host:port. A head that was killed needs `ray stop` "
    "first, and a cluster with a token RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH."
)
"""The advice for a cluster that cannot be connected to."""
LINE_BYTES = 64 << 20
"""The longest line, which holds the configuration."""
_DIAL_WITHIN_S = 10.0
_ROOM_WITHIN_S = 2.0
"""Seconds in which Ray reserves resources that are free."""
_TOKEN_MODE = "RAY_AUTH_MODE"
ENVIRONMENT_FAILED = "ray_runtime_env"
"""The code of an environment that Ray refuses or cannot make."""
_SHOWN_LINES = 8


class NodeHostActor:
    """The parent of a node host. Its methods run in its main thread, so the node host ends with the actor."""

    def has_token_mode(self) -> bool:
        """Return whether Ray requires its token on this node."""
        return os.environ.get("RAY_AUTH_MODE", "").lower() == "token"

    def start(self, command: list[str], document: str, chosen: list[str], secrets: dict[str, str]) -> None:
        """Start the node host with `document` as its input. Raises `OSError` if the command does not exist here.

        A command that begins with an empty word is one of this worker's interpreter. `chosen`: the variables of this
        worker that the user wants for servers; `secrets`: others of them, which Ray has not seen.
        """
        # The worker's variables are not for servers. Ray has set the last three for its own worker.
        own = {"PYTHONBREAKPOINT", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"}
        unwanted = {name for name in os.environ if name in own or name[:4] == "RAY_"} - {*chosen}
        kept = {name: value for name, value in os.environ.items() if name not in unwanted}
        self._process = subprocess.Popen(
            [command[0] or sys.executable, *command[1:], str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**kept, **secrets},
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(document.encode())
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended, which is reported with its output

    def read(self) -> bytes:
        """Return the next output of the node host; nothing at its end."""
        assert self._process.stdout is not None
        return os.read(self._process.stdout.fileno(), 1 << 16)

    def wait(self) -> int:
        """Return the exit code of the node host, which has closed its output."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._process.wait()


class RefusedError(Exception):
    """A request that cannot be met."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.code, self.remedy = code, remedy


class Driver:
    """Carries out the launcher's requests with Ray."""

    def __init__(self, ray: Any, send: Callable[[Json], None]) -> None:
        """`ray` is the module, connected to a cluster."""
        self._ray = ray
        self._send = send
        self._needs_token = not all(_is_loopback(node["NodeManagerAddress"]) for node in self._alive())
        self._actors: dict[int, Any] = {}
        self._hosts: dict[str, str] = {}
        """Host → the id of Ray's node on which its node host was last started."""
        self._reservations: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: dict[str, Callable[[Json], Awaitable[Any]]] = {
            "start": self._start,
            "kill": self._kill,
            "reserve": self._reserve,
            "release": self._release,
        }

    def _alive(self) -> list[Json]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def describe(self) -> Json:
        """The cluster, for the launcher. Raises `RefusedError` for one that everyone in its network can use."""
        alive = self._alive()
        if self._needs_token and os.environ.get(_TOKEN_MODE, "").lower() != "token":
            reached = sorted({node["NodeManagerAddress"] for node in alive})
            raise RefusedError(
                "ray_without_token",
                f"Ray listens on {', '.join(reached)} without token authentication: every machine that reaches it can "
                "execute code there.",
                "Start Ray and this command with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH, or Ray on 127.0.0.1.",
            )
        return {
            "address": self._ray.util.get_node_ip_address(),
            "nodes": [
                {"id": node["NodeID"], "name": node["NodeName"], "resources": node["Resources"]}
                for node in alive
            ],
        }

    async def serve(self, requests: asyncio.StreamReader) -> None:
        """Carry out requests until the launcher closes its end."""
        while line := await requests.readline():
            task = asyncio.create_task(self._answer(json.loads(line)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Json) -> None:
        answer: Json = {"kind": "answer", "number": request["number"]}
        try:
            answer["value"] = await self._requests[request["kind"]](request)
        except RefusedError as refused:
            answer["refused"] = _refusal(refused)
        except Exception as error:  # noqa: BLE001 - the launcher waits for an answer, whatever Ray raises
            answer["refused"] = _refusal(RefusedError("ray_failed", _first_lines(error), ""))
        self._send(answer)

    # --- Node hosts -----------------------------------------------------------------------------------------------

    async def _start(self, request: Json) -> None:
        """Start a node host on the node of the host's name."""
        node = self.find_node(request["host"], request["name"], request["node"])
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        where = NodeAffinitySchedulingStrategy(node, soft=False)
        actor_class = self._ray.remote(NodeHostActor)
        actor = actor_class.options(num_cpus=0, max_restarts=0, scheduling_strategy=where).remote()
        try:
            has_token_mode = await actor.has_token_mode.remote()
        except self._ray.exceptions.RuntimeEnvSetupError as error:
            raise RefusedError(
                ENVIRONMENT_FAILED,
                f"Ray cannot make the environment of ray_runtime_env on {request['host']}:\n{_build_output(error)}",
                "Correct ray_runtime_env. The whole output is in runtime_env_agent.log, in the logs of Ray there.",
            ) from error
        if self._needs_token and not has_token_mode:
            self._ray.kill(actor)
            raise RefusedError(
                "ray_without_token",
                f"Ray requires no token on {request['host']}.",
                "Start Ray on every node with RAY_AUTH_MODE=token.",
            )
        given = (request[name] for name in ("command", "document", "chosen", "secrets"))
        await actor.start.remote(*given)
        self._hosts[request["host"]] = node
        self._actors[request["actor"]] = actor
        task = asyncio.create_task(self._follow(request["actor"], actor))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def find_node(self, host: str, name: str, first: str) -> str:
        """Return the id of the node for a host. A node that came back has its name and another id."""
        taken = {node for other, node in self._hosts.items() if other != host}
        alive = [node["NodeID"] for node in self._alive() if node["NodeName"] == name]
        for node in (self._hosts.get(host, first), *alive):
            if node in alive and node not in taken:
                return str(node)
        raise RefusedError("no_ray_node", f"Ray has no node {host} now.", "")

    async def _follow(self, number: int, actor: Any) -> None:
        """Report the output of a node host and its end."""
        try:
            while chunk := await actor.read.remote():
                self._send({"kind": "output", "actor": number, "text": chunk.decode(errors="replace")})
            how = f"exit code {await actor.wait.remote()}"
        except self._ray.exceptions.RayError as error:
            how = f"the end of its actor ({_first_lines(error)})"
        self._send({"kind": "ended", "actor": number, "how": how})

    async def _kill(self, request: Json) -> None:
        actor = self._actors.pop(request["actor"], None)
        if actor is not None:
            self._ray.kill(actor)

    # --- Reservations ---------------------------------------------------------------------------------------------

    async def _reserve(self, request: Json) -> list[str] | None:
        """Reserve resources for a replica, and return its GPUs; None if its node has not enough of them now."""
        from ray.util.placement_group import placement_group

        needs = {_RAY_NAMES.get(name, name): amount for name, amount in request["needs"].items()}
        node = self._hosts[request["host"]]
        group = placement_group([needs], bundle_label_selector=[{"ray.io/node-id": node}])
        try:
            if not await asyncio.to_thread(group.wait, _ROOM_WITHIN_S):
                self._ray.util.remove_placement_group(group)
                return None
            gpus = await self._list_gpus(group, needs.get("GPU", 0))
        except BaseException:
            self._ray.util.remove_placement_group(group)
            raise
        self._reservations[request["replica"]] = group
        return gpus

    async def _list_gpus(self, group: Any, count: float) -> list[str]:
        """Return the GPUs that Ray has reserved, which are those of every task in the group."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        if not count:
            return []

        def own_gpus() -> list[str]:
            import ray

            return [str(gpu) for gpu in ray.get_gpu_ids()]

        where = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
        task = self._ray.remote(own_gpus).options(num_cpus=0, num_gpus=count, scheduling_strategy=where)
        gpus: list[str] = await task.remote()
        return gpus

    async def _release(self, request: Json) -> None:
        group = self._reservations.pop(request["replica"], None)
        if group is not None:
            self._ray.util.remove_placement_group(group)


_RAY_NAMES = {"num_cpus": "CPU", "num_gpus": "GPU"}


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _build_output(error: Exception) -> str:
    """The last lines of the command that failed, or of Ray's error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    began = [number for number, line in enumerate(lines) if line.endswith("lines of stdout:")]
    return "\n".join(lines[began[-1] + 1 :][-_SHOWN_LINES:] if began else lines[-1:])


def _first_lines(error: Exception) -> str:
    """The cause of an error of Ray, without the traceback of its worker."""
    cause = getattr(error, "cause", None) or error
    return " ".join(str(cause).strip().splitlines()[:3])


def _refusal(refused: RefusedError) -> Json:
    return {"code": refused.code, "message": str(refused), "remedy": refused.remedy}


def connect(ray: Any, address: str, environment: Json) -> None:
    """Connect to a cluster. `environment`: that of its workers. Raises `RefusedError`."""
    try:
        ray.runtime_env.RuntimeEnv(**environment)
    except (TypeError, ValueError) as error:
        raise RefusedError(
            ENVIRONMENT_FAILED, f"Ray refuses ray_runtime_env: {_first_lines(error)}", "Correct it."
        ) from error
    try:
        if address != AUTO:  # Ray itself would try for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), _DIAL_WITHIN_S).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env=environment)
    except ray.exceptions.RuntimeEnvSetupError as error:
        raise RefusedError(
            ENVIRONMENT_FAILED,
            f"Ray cannot copy the folders of ray_runtime_env: {_first_lines(error)}",
            "Name smaller folders, or exclude files with `excludes`.",
        ) from error
    except Exception as error:  # the errors of `ray.init` have no other common base
        where = "of this machine" if address == AUTO else f"at {address}"
        problem = f"the Ray cluster {where} cannot be used: {_first_lines(error)}"
        raise RefusedError("no_ray", problem, REMEDY) from error


async def run(answers: BinaryIO) -> None:
    """Connect to the cluster of the first request, and serve the launcher. The first answer says how that went."""
    import ray

    def send(message: Json) -> None:
        answers.write(json.dumps(message).encode() + b"\n")
        answers.flush()

    loop, requests = asyncio.get_running_loop(), asyncio.StreamReader(LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin.buffer)
    try:
        first = json.loads(await requests.readline())
        connect(ray, first["address"], first["environment"])
        driver = Driver(ray, send)
        send({"kind": "connected", **driver.describe()})
    except RefusedError as refused:
        send({"kind": "refused", "refused": _refusal(refused)})
        return
    await driver.serve(requests)


def main() -> None:
    end_with_parent(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Ray prints there
    asyncio.run(run(answers))


if __name__ == "__main__":
    main()
