"""Run a synchronous `verify` in a worker process, under a deadline.

    class MyEnvironment(SimpleResourcesServer):
        def verify(self, body: MyVerifyRequest) -> MyVerifyResponse:     # not async: it may compute for minutes
            ...

Each worker builds the server once, from its class and configuration, and reuses it. Such a `verify` can use the state
that `model_post_init` sets up, but not the sessions: it takes only the body. The worker also parses the body; the
event loop only forwards bytes.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel

from nemo_gym.config.types import BaseServerConfig
from nemo_gym.failures import ConfigError
from nemo_gym.processes.worker_main import load_module
from nemo_gym.resources.answer_fault_rule import Control, insert_control
from nemo_gym.resources.verdicts import dump_verdict
from nemo_gym.serving.routes import parse_body
from nemo_gym.transport.server_client import ServerClient

if TYPE_CHECKING:
    from nemo_gym.resources.server import SimpleResourcesServer

_servers: dict[tuple[str, str, bytes], Any] = {}
"""The servers that this worker has built."""


class ServerInWorker:
    """A picklable reference to a server: unpickling it in a worker builds the server there."""

    def __init__(self, server: SimpleResourcesServer) -> None:
        """Raises `ConfigError` when the server's `verify` cannot run in another process."""
        server_class = type(server)
        _body_model(server_class)
        module = sys.modules[server_class.__module__]
        self._parts = (
            server_class.__module__,
            server_class.__qualname__,
            getattr(module, "__file__", None),
            pickle.dumps(server.config),
        )

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _load_server, self._parts


def verify_in_worker(
    server: SimpleResourcesServer, body: bytes, left_out: str | None, control: Control | None
) -> bytes:
    """Return the verdict of `server.verify` on the JSON `body`, as JSON without the fields `left_out`. For workers.

    A `control` takes the place of the answer in `body`.
    """
    request = parse_body(_body_model(type(server)), body)
    verify: Any = server.verify
    result = verify(request if control is None else insert_control(request, control))
    return dump_verdict(result, left_out, verify=verify)


def build_in_worker(server: SimpleResourcesServer) -> None:
    """Do nothing: unpickling the argument has built the server."""


def _load_server(module: str, qualname: str, file: str | None, config: bytes) -> Any:
    key = (module, qualname, config)
    if key not in _servers:
        server_class: Any = load_module(module, file)
        for name in qualname.split("."):
            server_class = getattr(server_class, name)
        # Unpickled only after the module is loaded, because the module may define the configuration's classes.
        _servers[key] = server_class(config=pickle.loads(config), server_client=_no_client())
    return _servers[key]


def _no_client() -> ServerClient:
    nowhere = BaseServerConfig(host="127.0.0.1", port=0)
    return ServerClient(head_server_config=nowhere, global_config_dict={})


def _body_model(server_class: type[SimpleResourcesServer]) -> type[BaseModel]:
    """Return the type of the body that a synchronous `verify` takes."""
    parameters = list(inspect.signature(server_class.verify).parameters)[1:]
    hints = get_type_hints(server_class.verify)
    model = hints.get(parameters[0]) if len(parameters) == 1 else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError(
            f"`verify` of {server_class.__name__} takes ({', '.join(parameters)}); a `verify` that is not async runs "
            "in worker processes, which have neither the request nor the sessions",
            code="verify_needs_loop",
            remedy="Make it take only the body, with a type annotation, or make it `async def` and move CPU-bound work "
            "to a function under @off_loop.",
        )
    return model
