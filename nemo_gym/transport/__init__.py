"""Calls between servers.

A `Caller` resolves a server name to a replica, bounds the call by the rollout's deadline, and retries only calls that
are safe to repeat. A `Transport` carries one call: over sockets (`HttpTransport`) or straight into ASGI apps
(`InMemoryTransport`). The room builds on `config` and `processes`.

- `calls`: a call, its reply, and the `Transport` protocol
- `http`, `memory`: the two transports
- `caller`, `circuit_breaker`: retries, deadlines, and endpoints that fail
- `directory`: server names and the base URLs of their replicas
- `server_client`: the client that servers, agents and trainers use
- `upstream_error`: the exception for an error status, compatible with aiohttp's
- `context`, `deadline`: the session and the deadline of the request being handled
- `control`: the routes that a model must never reach
- `request_body`: the body of an ASGI request
"""

from nemo_gym.transport._single_call import call_once, call_once_blocking
from nemo_gym.transport.caller import Caller, RetryBudget, failure_of_reply
from nemo_gym.transport.calls import Call, Reply, Transport
from nemo_gym.transport.deadline import Deadline
from nemo_gym.transport.directory import Directory
from nemo_gym.transport.http import HttpTransport
from nemo_gym.transport.memory import InMemoryTransport

__all__ = [
    "Call",
    "Caller",
    "Deadline",
    "Directory",
    "HttpTransport",
    "InMemoryTransport",
    "Reply",
    "RetryBudget",
    "Transport",
    "call_once",
    "call_once_blocking",
    "failure_of_reply",
]
