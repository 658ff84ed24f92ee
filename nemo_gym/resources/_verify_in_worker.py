"""A `verify` that is a plain function: it computes in a worker process, is given so long, and can be killed.

    class MyEnvironment(SimpleResourcesServer):
        def verify(self, body: MyVerifyRequest) -> MyVerifyResponse:     # not async: it may loop, or parse for minutes
            ...

A worker builds the server anew, from its class and its configuration, and keeps it. So such a `verify` sees what
`model_post_init` sets up, and nothing of the sessions: it takes the body alone. The body is parsed there too; the
event loop only passes bytes on.
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
from nemo_gym.serving.routes import dump_body, parse_body
from nemo_gym.transport.server_client import ServerClient

if TYPE_CHECKING:
    from nemo_gym.resources.server import SimpleResourcesServer

_servers: dict[tuple[str, str, bytes], Any] = {}
"""In a worker: the servers that were built here."""


class ServerInWorker:
    """Stands for a server on its way to a worker: unpickled, it is that server, built in the process that asks."""

    def __init__(self, server: SimpleResourcesServer) -> None:
        """Raises `ConfigError` when the server's `verify` can't be called in another process."""
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
        return _server_of, self._parts


def verify_in_worker(server: SimpleResourcesServer, body: bytes, left_out: str | None = None) -> bytes:
    """The answer of `server.verify` to the JSON `body`, as JSON without the fields `left_out`. Runs in a worker."""
    verify: Any = server.verify
    return dump_body(verify(parse_body(_body_model(type(server)), body)), left_out)


def build_in_worker(server: SimpleResourcesServer) -> None:
    """Nothing more: that the server has arrived means that it could be built."""


def _server_of(module: str, qualname: str, file: str | None, config: bytes) -> Any:
    key = (module, qualname, config)
    if key not in _servers:
        server_class: Any = load_module(module, file)
        for name in qualname.split("."):
            server_class = getattr(server_class, name)
        # Only now: the classes of the configuration may be the module's own.
        _servers[key] = server_class(config=pickle.loads(config), server_client=_no_client())
    return _servers[key]


def _no_client() -> ServerClient:
    nowhere = BaseServerConfig(host="127.0.0.1", port=0)
    return ServerClient(head_server_config=nowhere, global_config_dict={})


def _body_model(server_class: type[SimpleResourcesServer]) -> type[BaseModel]:
    """The type of the body that a plain `verify` takes."""
    parameters = list(inspect.signature(server_class.verify).parameters)[1:]
    hints = get_type_hints(server_class.verify)
    model = hints.get(parameters[0]) if len(parameters) == 1 else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError(
            f"`verify` of {server_class.__name__} takes ({', '.join(parameters)}); a `verify` that is not async runs "
            "in worker processes, which have neither the request nor the sessions",
            code="verify_needs_loop",
            remedy="Let it take the body alone, with its type, or make it `async def` and hand what computes to a "
            "function under @off_loop.",
        )
    return model
