"""A mock inference engine that speaks vLLM's HTTP: see `docs/mock_engine.md`.

    async with MockEngine(EngineOptions(policy="echo")) as engine:
        client = AsyncOpenAI(base_url=engine.base_url, api_key="none")

`EngineProcess` runs one in a process of its own; `policies` needs no engine at all.
"""

from nemo_gym.mock_engine.conversation import Message, Reply, Tool, ToolCall
from nemo_gym.mock_engine.engine import Engine
from nemo_gym.mock_engine.options import EngineOptions
from nemo_gym.mock_engine.policies import AnswerPolicy, EchoPolicy, Policy, ScriptPolicy, ToolsPolicy
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.mock_engine.server import MockEngine

__all__ = [
    "AnswerPolicy",
    "EchoPolicy",
    "Engine",
    "EngineOptions",
    "EngineProcess",
    "Message",
    "MockEngine",
    "Policy",
    "Reply",
    "ScriptPolicy",
    "Tool",
    "ToolCall",
    "ToolsPolicy",
]
