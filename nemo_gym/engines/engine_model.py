"""Model servers in front of an engine: plain JSON in and out, optionally as a stream of events.

A subclass implements Responses requests and chat requests on plain data; Anthropic's Messages are converted to the
Responses API. Streams are made of whole answers (`event_streams`).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

import orjson
from fastapi import Body, FastAPI, Request
from fastapi import Response as HttpResponse
from pydantic import BaseModel, ConfigDict

from nemo_gym import WORKING_DIR, clock
from nemo_gym.engines.compaction import COMPACT_PATH
from nemo_gym.engines.model import BaseResponsesAPIModelConfig, SimpleResponsesAPIModel
from nemo_gym.engines.record.call import current_call
from nemo_gym.engines.recorder import Recorder
from nemo_gym.failures import InputError
from nemo_gym.responses import Note
from nemo_gym.responses.chat_schemas import ChatCompletion, ChatCompletionCreateParams
from nemo_gym.responses.harness_requests import reduce_message_request, reduce_response_request
from nemo_gym.responses.harness_tools import HarnessTools
from nemo_gym.responses.messages_api import convert_response_to_message
from nemo_gym.responses.messages_request import convert_message_request
from nemo_gym.responses.schemas import Response, ResponseCreateParams
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import request_object

__all__ = ["EngineModel", "EngineModelConfig", "model_entry", "models_list", "new_id", "now"]

log = logging.getLogger(__name__)


class EngineModelConfig(BaseResponsesAPIModelConfig):
    model_config = ConfigDict(hide_input_in_errors=True)  # the configuration contains keys

    record_to: str | None = None
    """A JSONL file to which every call is appended, in the format of `replay_model`."""
    history_room_mb: float | None = None
    """Accepted and without effect: model servers no longer keep conversations."""


class EngineModel(SimpleResponsesAPIModel):
    """A model server on plain JSON."""

    config: EngineModelConfig
    reads_objects: ClassVar[bool] = True
    is_provider: ClassVar[bool] = False
    """True if the engine itself reads what a provider's agents send; then their requests are left as they are."""

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if self.config.history_room_mb is not None:
            log.info("history_room_mb has no effect: agents send whole conversations")
        # Not private attributes: pydantic raises and catches an error for every access to those.
        record_to = self.config.record_to
        self._noted: Counter[str] = Counter()
        self._recorder = Recorder(WORKING_DIR / record_to) if record_to is not None else None

    def setup_webserver(self) -> FastAPI:
        app = self.new_app()
        app.post("/v1/responses", name="responses")(self._responses_route)
        app.post(COMPACT_PATH, include_in_schema=False)(self._responses_route)
        app.post("/v1/chat/completions", name="chat_completions")(self._chat_route)
        app.post("/v1/messages", name="messages")(self._messages_route)
        app.post("/v1/messages/count_tokens")(self._count_message_route)
        app.post("/v1/responses/input_tokens")(self._count_response_route)
        add_harness_routes(app, self.list_models)
        app.get("/preflight")(self.preflight)
        app.get("/_ng/notes")(self._answer_notes)
        _describe_bodies(app)
        return app

    @abstractmethod
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the Responses object for `params`, which contain no `stream`."""

    @abstractmethod
    async def complete(self, chat: dict[str, Any]) -> dict[str, Any]:
        """Return the chat completion for the request `chat`, which contains no `stream`."""

    @abstractmethod
    async def list_models(self) -> dict[str, Any]:
        """Return OpenAI's list object with the available models."""

    async def count_tokens(self, params: dict[str, Any]) -> int:
        """Return the number of prompt tokens of a Responses request. Raises `InputError` without a tokenizer."""
        raise InputError("this model server has no tokenizer", code="not_supported", status=501)

    async def preflight(self) -> dict[str, Any]:
        """Raise for problems that make every call fail: an unreachable engine, a refused key, an unknown model.

        The facts of the answer's `engine` are part of the identity of runs (`nemo_gym.engines.engine`).
        """
        return {"ok": True}

    async def responses(self, body: ResponseCreateParams = Body()) -> Response:
        params = orjson.loads(body.model_dump_json(exclude_unset=True, by_alias=True))
        return Response.model_validate(await self.respond(params))

    async def chat_completions(self, body: ChatCompletionCreateParams = Body()) -> ChatCompletion:
        chat = orjson.loads(body.model_dump_json(exclude_unset=True, by_alias=True))
        return ChatCompletion.model_validate(await self.complete(chat))

    async def on_stop(self) -> None:
        await super().on_stop()
        if self._recorder is not None:
            self._recorder.close()

    def take_notes(self, notes: Iterable[Note | str]) -> None:
        """Count changes and oddities of a call for `GET /_ng/notes`; log the first of each kind."""
        call = current_call.get()
        for note in notes:
            code, told = (
                (note, "") if isinstance(note, str) else (note.code, f": {note.field} {note.message}")
            )
            self._noted[code] += 1
            if call is not None:
                call.note(note)
            if self._noted[code] == 1:
                name = self.config.name
                log.warning("`%s` noted %s%s; more are counted in GET /_ng/notes", name, code, told)

    # --- Routes -------------------------------------------------------------------------------------------------

    async def _responses_route(self, request: Request) -> HttpResponse:
        params, tools = self._response_request(request, await request_object(request))
        answer = await self._respond_and_record(params)
        if tools is not None:
            answer = {**answer, "output": tools.restore_items(answer["output"])}
        return _json(answer)

    async def _chat_route(self, request: Request) -> HttpResponse:
        chat = await request_object(request)
        answer = await self.complete(chat)
        self._record("chat", chat, answer)
        return _json(answer)

    async def _messages_route(self, request: Request) -> HttpResponse:
        params = self._message_request(request, await request_object(request))
        return _json(convert_response_to_message(await self._respond_and_record(params)))

    async def _count_response_route(self, request: Request) -> HttpResponse:
        params, _ = self._response_request(request, await request_object(request))
        params.pop("stream", None)
        count = await self.count_tokens(params)
        return _json({"object": "response.input_tokens", "input_tokens": count})

    async def _count_message_route(self, request: Request) -> HttpResponse:
        params = self._message_request(request, await request_object(request))
        return _json({"input_tokens": await self.count_tokens(params)})

    def _response_request(
        self, request: Request, params: dict[str, Any]
    ) -> tuple[dict[str, Any], HarnessTools | None]:
        """Return the Responses request, and the tools of an agent's own kind."""
        if not self._is_harness_request(request):
            return params, None
        params, notes, tools = reduce_response_request(params)
        self.take_notes(notes)
        return params, tools

    def _message_request(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the Responses request for a Messages request."""
        if self._is_harness_request(request):
            asked, notes = reduce_message_request(asked)
            self.take_notes(notes)
        return convert_message_request(asked)

    async def _respond_and_record(self, params: dict[str, Any]) -> dict[str, Any]:
        answer = await self.respond(params)
        self._record("responses", params, answer)
        return answer

    def _is_harness_request(self, request: Request) -> bool:
        """Return whether a request came below `/ng-rollout/<id>`, as those of agents that nobody adapted."""
        return not self.is_provider and "rollout_id" in request.path_params

    def _record(self, api: str, request: dict[str, Any], answer: dict[str, Any]) -> None:
        if self._recorder is not None:
            self._recorder.add(api, request, answer)

    async def _answer_notes(self) -> dict[str, int]:
        return dict(self._noted)


def model_entry(name: str, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build an entry of `GET /v1/models`: OpenAI's four fields and the engine's own fields."""
    return {"object": "model", "created": 0, "owned_by": "nemo_gym", **(facts or {}), "id": name}


def models_list(*entries: dict[str, Any]) -> dict[str, Any]:
    """Build OpenAI's list object."""
    return {"object": "list", "data": list(entries)}


def new_id(prefix: str) -> str:
    return f"{prefix}_{clock.hex_id()}"


def now() -> float:
    return float(int(clock.wall_clock()))


def _json(answer: dict[str, Any]) -> HttpResponse:
    return JsonResponse(orjson.dumps(answer))


# --- OpenAPI ----------------------------------------------------------------------------------------------------

_BODIES: Mapping[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "/v1/responses": (ResponseCreateParams, Response),
    "/v1/chat/completions": (ChatCompletionCreateParams, ChatCompletion),
}


def _describe_bodies(app: FastAPI) -> None:
    """Add the bodies that the routes parse themselves to `GET /openapi.json`, on its first request."""
    plain_openapi = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = plain_openapi()
            components = schema.setdefault("components", {}).setdefault("schemas", {})
            for path, (asked, answered) in _BODIES.items():
                operation = schema["paths"][path]["post"]
                operation["requestBody"] = {"required": True, "content": _content(asked, components)}
                operation["responses"]["200"]["content"] = _content(answered, components)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _content(model: type[BaseModel], components: dict[str, Any]) -> dict[str, Any]:
    described = model.model_json_schema(ref_template="#/components/schemas/{model}")
    components.update(described.pop("$defs", {}))
    if "stream" in described["properties"]:
        described["properties"]["stream"] = {"type": "boolean", "default": False}
    components[model.__name__] = described
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}


# --- Routes beside those of the model ---------------------------------------------------------------------------------
# Routes that agents of a provider call beside those of the model: its list of models, and probes by `HEAD`.
# Any model name is served by the policy, so `claude-sonnet-4-5` and an agent's small model need no alias.


_ANTHROPIC = "anthropic-version"
"""The header of every request of Anthropic's clients."""

ListModels = Callable[[], Awaitable[dict[str, Any]]]


def add_harness_routes(app: GymApp, list_models: ListModels) -> None:
    """Add `GET /v1/models`, `/v1/models/<name>`, and `HEAD` of `/` and of the list."""

    async def models(request: Request) -> dict[str, Any]:
        listed = await list_models()
        return anthropic_models(listed) if _ANTHROPIC in request.headers else listed

    async def model(name: str, request: Request) -> dict[str, Any]:
        entry = {**(await list_models())["data"][0], "id": name}
        return _anthropic_model(entry) if _ANTHROPIC in request.headers else entry

    app.get("/v1/models")(models)
    app.get("/v1/models/{name:path}")(model)
    for path in ("/", "/v1/models"):
        app.head(path, include_in_schema=False)(_answer_head)


def anthropic_models(listed: Mapping[str, Any]) -> dict[str, Any]:
    """Return OpenAI's list of models in Anthropic's form."""
    entries = [_anthropic_model(entry) for entry in listed["data"]]
    names = [entry["id"] for entry in entries]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
    return {"data": entries, "has_more": False, **ends}


def _anthropic_model(entry: Mapping[str, Any]) -> dict[str, Any]:
    created = datetime.fromtimestamp(entry.get("created") or 0, UTC).isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": entry["id"], "display_name": entry["id"], "created_at": created}


async def _answer_head() -> HttpResponse:
    return HttpResponse()
