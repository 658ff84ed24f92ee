"""Calls between servers: names, deadlines, retries, replicas; HTTP and memory behind one interface."""

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
