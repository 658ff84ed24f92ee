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

from nemo_gym.mock_engine.conversation import Message as Message
from nemo_gym.mock_engine.conversation import ModelReply as ModelReply
from nemo_gym.mock_engine.conversation import Tool as Tool
from nemo_gym.mock_engine.conversation import ToolCall as ToolCall
from nemo_gym.mock_engine.engine import Engine as Engine
from nemo_gym.mock_engine.options import EngineOptions as EngineOptions
from nemo_gym.mock_engine.policies import AnswerPolicy as AnswerPolicy
from nemo_gym.mock_engine.policies import EchoPolicy as EchoPolicy
from nemo_gym.mock_engine.policies import MockPolicy as MockPolicy
from nemo_gym.mock_engine.policies import ScriptPolicy as ScriptPolicy
from nemo_gym.mock_engine.policies import ToolsPolicy as ToolsPolicy
from nemo_gym.mock_engine.process import EngineProcess as EngineProcess
from nemo_gym.mock_engine.server import MockEngine as MockEngine

__all__ = ["EngineOptions", "EngineProcess", "MockEngine", "ModelReply"]
