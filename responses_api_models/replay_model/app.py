"""A model server that replays recorded answers, for offline runs and regression tests.

Requests are matched by the content that a model reads (`recordings.request_key`). A request without a recording is an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from nemo_gym.engines.engine_model import (
    EngineModel,
    EngineModelConfig,
    model_entry,
    models_list,
    new_id,
    now,
)
from nemo_gym.failures import EngineError
from nemo_gym.responses import convert_chat_request, convert_response_to_chat
from nemo_gym.responses.responses_answer import build_envelope
from responses_api_models.replay_model.recordings import Recordings

_MOST_DESCRIBED = 200


class ReplayModelConfig(EngineModelConfig):
    recordings: list[str]
    """JSONL files, written by `record_to` of a model server or by `prepare.py`."""
    model: str = "replay"


class ReplayModel(EngineModel):
    config: ReplayModelConfig

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._recordings = Recordings(self.config.recordings)

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        answer = self._recordings.next_answer(params)
        if answer is None:
            raise EngineError(
                f"no recording matches this request: {describe(params)}",
                code="not_recorded",
                remedy=f"Record it, or add its file to `recordings` (now {', '.join(self.config.recordings)}).",
                param="input",
                status=404,
            )
        return text_response(answer, params, self.config.model) if isinstance(answer, str) else dict(answer)

    async def complete(self, chat: dict[str, Any]) -> dict[str, Any]:
        return convert_response_to_chat(await self.respond(convert_chat_request(chat).body))

    async def list_models(self) -> dict[str, Any]:
        return models_list(model_entry(self.config.model))


def describe(params: Mapping[str, Any]) -> str:
    """Return the end of the conversation, shortened for an error message."""
    given = params.get("input")
    last = given[-1] if isinstance(given, list) and given else given
    text = last if isinstance(last, str) else orjson.dumps(last).decode()
    return text if len(text) <= _MOST_DESCRIBED else f"…{text[-_MOST_DESCRIBED:]}"


def text_response(text: str, params: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Build a Responses object whose only output is `text`."""
    message = {
        "type": "message",
        "id": new_id("msg"),
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    envelope = build_envelope(params, ids=new_id, now=now())
    return envelope | {"model": model, "status": "completed", "output": [message]}


if __name__ == "__main__":
    ReplayModel.run_webserver()
