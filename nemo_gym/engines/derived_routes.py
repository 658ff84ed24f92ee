"""Anthropic's Messages of a model server whose author wrote only `responses` and `chat_completions`."""

from __future__ import annotations

import orjson
from fastapi import Request
from fastapi import Response as HttpResponse

from nemo_gym.responses.messages_api import message_of_response
from nemo_gym.responses.messages_request import responses_params_of_message
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import request_object
from nemo_gym.transport.memory import reply_of
from nemo_gym.transport.request_body import WholeBody


async def messages(request: Request) -> HttpResponse:
    """Answer `POST /v1/messages` by a call of the app's `/v1/responses`."""
    params = responses_params_of_message(await request_object(request))
    scope = {**request.scope, "path": "/v1/responses", "raw_path": b"/v1/responses"}
    app: GymApp = request.app
    reply = await reply_of(app.handler_of(scope), scope, WholeBody(orjson.dumps(params), request.receive))
    if reply.status != 200:
        return HttpResponse(reply.body, reply.status, dict(reply.headers))
    return JsonResponse(orjson.dumps(message_of_response(orjson.loads(reply.body))))
