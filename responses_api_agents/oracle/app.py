"""The agent that knows: it plays the solution of a task folder, or nothing, to show what a verifier makes of them."""

from __future__ import annotations

from typing import Literal

import orjson
from fastapi import Body, HTTPException, Request
from fastapi import Response as HttpResponse

from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config_types import ResourcesServerRef
from nemo_gym.episodes.driver import Act, Episode, require_ok
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.rows.verdict import EndReason


class OracleConfig(BaseResponsesAPIAgentConfig):
    resources_server: ResourcesServerRef
    plays: Literal["solution", "nothing"] = "solution"


class Oracle(SimpleResponsesAPIAgent):
    config: OracleConfig

    async def responses(
        self, request: Request, response: HttpResponse, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        raise HTTPException(501, "this agent needs a task row: call its /run")

    async def act(self, episode: Episode) -> Act:
        reason, text = EndReason.FINAL_ANSWER, "nothing"
        if self.config.plays == "solution":
            reply = await self.server_client.post(self.resources_server_name, "/play_solution", json={})
            require_ok(reply, self.resources_server_name, "play the solution")
            played = orjson.loads(reply.body)
            text = f"the solution, which ended with status {played['exit_code']}"
            if played["timed_out"]:
                reason = EndReason.TIMED_OUT
        content = [{"type": "output_text", "text": f"This agent played {text}.", "annotations": []}]
        message = {
            "type": "message",
            "id": "msg_oracle",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
        response = {**Act.build_empty_response("oracle"), "output": [message]}
        return Act(response, reason)


if __name__ == "__main__":
    Oracle.run_webserver()
