"""Items of tools that the provider or another client runs.

The gym passes them through: it neither executes these calls nor trains on their tokens. Each model declares the
fields that verifiers read, with plain JSON values, and keeps all other fields.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from nemo_gym.responses.wire import JsonObject, JsonObjects, Plain, TaggedWireModel


class OtherItem(TaggedWireModel):
    """An item of an unknown type, kept unchanged."""

    type: str
    id: str | None = None
    status: str | None = None


class WebSearchCall(OtherItem):
    type: Literal["web_search_call"] = "web_search_call"
    action: JsonObject | None = None


class FileSearchCall(OtherItem):
    type: Literal["file_search_call"] = "file_search_call"
    queries: list[str] | None = None
    results: JsonObjects | None = None


class CodeInterpreterCall(OtherItem):
    type: Literal["code_interpreter_call"] = "code_interpreter_call"
    code: str | None = None
    container_id: str | None = None
    outputs: JsonObjects | None = None


class ImageGenerationCall(OtherItem):
    type: Literal["image_generation_call"] = "image_generation_call"
    result: str | None = None


class ComputerCall(OtherItem):
    type: Literal["computer_call"] = "computer_call"
    call_id: str
    action: JsonObject | None = None
    pending_safety_checks: JsonObjects | None = None


class ComputerCallOutput(OtherItem):
    type: Literal["computer_call_output"] = "computer_call_output"
    call_id: str
    output: JsonObject


class CustomToolCall(OtherItem):
    type: Literal["custom_tool_call"] = "custom_tool_call"
    call_id: str
    name: str
    input: str


class CustomToolCallOutput(OtherItem):
    type: Literal["custom_tool_call_output"] = "custom_tool_call_output"
    call_id: str
    output: str | JsonObjects


class LocalShellCall(OtherItem):
    type: Literal["local_shell_call"] = "local_shell_call"
    call_id: str | None = None
    action: JsonObject | None = None


class LocalShellCallOutput(OtherItem):
    type: Literal["local_shell_call_output"] = "local_shell_call_output"
    call_id: str | None = None
    output: str


class McpCall(OtherItem):
    type: Literal["mcp_call"] = "mcp_call"
    name: str
    arguments: str
    server_label: str | None = None
    output: str | None = None
    error: Any = None


class McpListTools(OtherItem):
    type: Literal["mcp_list_tools"] = "mcp_list_tools"
    server_label: str | None = None
    tools: Annotated[list[Any], Plain] = Field(default_factory=list)


class McpApprovalRequest(OtherItem):
    type: Literal["mcp_approval_request"] = "mcp_approval_request"
    name: str
    arguments: str
    server_label: str | None = None


class McpApprovalResponse(OtherItem):
    type: Literal["mcp_approval_response"] = "mcp_approval_response"
    approval_request_id: str
    approve: bool
    reason: str | None = None
