"""The former name of `nemo_gym.mock_engine`."""

from nemo_gym.mock_engine import (
    AnswerPolicy,
    EchoPolicy,
    Engine,
    EngineOptions,
    EngineProcess,
    Message,
    MockEngine,
    Policy,
    Reply,
    ScriptPolicy,
    Tool,
    ToolCall,
    ToolsPolicy,
)

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
