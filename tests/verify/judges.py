"""Scripted judge models for tests, which record their questions."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import AsyncMock, MagicMock

from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.prompt import PromptConfig
from nemo_gym.server_utils import ServerClient
from nemo_gym.verify.judge import (
    Judge,
    Judgement,
    JudgeOptions,
    label_reader,
)

JUDGE_SERVER = {"type": "responses_api_models", "name": "the_judge"}


def response_of(*texts: str) -> dict[str, Any]:
    """Return a Response with one assistant message per text."""
    output = [
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
        for text in texts
    ]
    answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": output}
    return {**answer, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


class ScriptedJudge:
    """A client whose model server gives one of these answers per call; exceptions are raised."""

    def __init__(self, *answers: str | Exception, delay_s: float = 0.0) -> None:
        self.asked: list[NeMoGymResponseCreateParamsNonStreaming] = []
        self.peak = self._in_flight = 0
        self._answers = list(answers)
        self._delay_s = delay_s
        self.client = MagicMock(spec=ServerClient)
        self.client.post = AsyncMock(side_effect=self._post)

    @property
    def prompts(self) -> list[str]:
        """The last message of each question."""
        return [str(params.input[-1].content) for params in self.asked]  # type: ignore[union-attr]

    async def _post(self, **call: Any) -> MagicMock:
        self.asked.append(call["json"])
        self._in_flight += 1
        self.peak = max(self.peak, self._in_flight)
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self._in_flight -= 1
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        reply = MagicMock(ok=True, status=200)
        reply.json = AsyncMock(return_value=response_of(answer))
        reply.read = AsyncMock(return_value=json.dumps(response_of(answer)).encode())
        return reply


PROMPT = PromptConfig(system="You judge.", user="Question: {question}\nAnswer:\n{answer}")


READ = label_reader({"[[YES]]": True, "[[NO]]": False})


def make_judge(**options: Any) -> Judge:
    return Judge(JudgeOptions.model_validate({"judge_model_server": JUDGE_SERVER, **options}))


async def ask(
    judge: Judge, model: ScriptedJudge, answer: str = "42", question: str = "6 * 7?"
) -> Judgement[bool]:
    return await judge.ask(
        model.client, PROMPT, fields={"question": question}, untrusted={"answer": answer}, read=READ
    )
