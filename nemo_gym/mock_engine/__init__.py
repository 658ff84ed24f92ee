"""A mock inference engine with vLLM's HTTP API: see `docs/mock_engine.md`.

    async with MockEngine(EngineOptions(policy="echo")) as engine:
        client = AsyncOpenAI(base_url=engine.base_url, api_key="none")

The same seed and the same requests give the same answers. The room builds on `serving`, `transport`, `processes`
and `responses`. Public modules:

- `server`, `process`, `in_memory`: an engine in this event loop, in a child process, or without a socket
- `options`: the keys of `ng_mock_engine`
- `policies`, `conversation`: scripted policies and the messages that they read; they need no engine
- `engine`, `tokenizer`, `drifting`, `token_input`: generation, tokens, token drift, prompts as token ids
- `fault_plan`, `fault_kinds`: the faults and the requests that they apply to
- `app`, `request`, `refusals`, `exchange`, `delivery`, `serving`: the HTTP application
"""

from nemo_gym.mock_engine.conversation import Message, ModelReply, Tool, ToolCall
from nemo_gym.mock_engine.engine import Engine
from nemo_gym.mock_engine.options import EngineOptions
from nemo_gym.mock_engine.policies import AnswerPolicy, EchoPolicy, MockPolicy, ScriptPolicy, ToolsPolicy
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
    "MockPolicy",
    "ModelReply",
    "ScriptPolicy",
    "Tool",
    "ToolCall",
    "ToolsPolicy",
]
