"""Calls between servers.

A `Caller` resolves a server name to a replica, bounds the call by the rollout's deadline, and retries only calls that
are safe to repeat. A `Transport` carries one call: over sockets (`HttpTransport`) or straight into ASGI apps
(`InMemoryTransport`). The room builds on `config` and `processes`.

- `calls`: a call, its reply, and the `Transport` protocol
- `http`, `memory`: the two transports
- `local_sockets`: sockets for calls within a machine
- `caller`, `circuit_breaker`: retries, deadlines, and endpoints that fail
- `directory`: server names and the base URLs of their replicas
- `pools`: the transports of a process, shared by its callers
- `server_client`: the client that servers, agents and trainers use
- `upstream_error`: the exception for an error status, compatible with aiohttp's
- `context`, `deadline`: the session and the deadline of the request being handled
- `control`: the routes that a model must never reach
- `request_body`: the body of an ASGI request
"""

from nemo_gym.transport._single_call import call_once as call_once
from nemo_gym.transport._single_call import call_once_blocking as call_once_blocking
from nemo_gym.transport.caller import Caller as Caller
from nemo_gym.transport.caller import RetryBudget as RetryBudget
from nemo_gym.transport.caller import read_reply_failure as read_reply_failure
from nemo_gym.transport.calls import Call as Call
from nemo_gym.transport.calls import Reply as Reply
from nemo_gym.transport.calls import Transport as Transport
from nemo_gym.transport.deadline import Deadline as Deadline
from nemo_gym.transport.directory import Directory as Directory
from nemo_gym.transport.http import HttpTransport as HttpTransport
from nemo_gym.transport.memory import InMemoryTransport as InMemoryTransport
