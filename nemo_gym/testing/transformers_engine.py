"""A transformers model behind vLLM's chat route, in the training process, for examples and tests.

    engine = TransformersEngine(model, tokenizer)
    with LoopbackServers() as servers:
        url = servers.serve(engine.app)          # policy_base_url is f"{url}/v1"

It samples from the full distribution at the request's temperature, batches waiting requests, returns the sampled ids
and their logprobs, and takes NeMo RL's `required_prefix_token_ids`, which prevents token drift. `load` replaces the
weights. Unsupported parameters are refused. Needs torch and transformers.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from nemo_gym.tokens.splicing import splice

_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_WAIT_FOR_MORE_S = 0.005
"""Seconds that the first request of a batch waits for others."""
_DEFAULT_TOKENS = 256


class ChatRequest(BaseModel, extra="allow"):
    """The supported part of vLLM's chat request. Fields with one legal value are checked."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    temperature: float = Field(1.0, gt=0)
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    seed: int | None = None
    top_logprobs: int = Field(0, ge=0, le=20)
    required_prefix_token_ids: list[int] | None = None


_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "n": (1,),
    "stream": (False,),
    "tool_choice": ("auto", "none"),
}


@dataclass(slots=True)
class Sampling:
    """One request in progress."""

    prompt_ids: list[int]
    most: int
    temperature: float
    candidates: int
    """Number of top candidates to report for each sampled token."""
    generator: torch.Generator | None
    done: asyncio.Future[None]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    likeliest: list[list[tuple[int, float]]] = field(default_factory=list)
    finished: bool = False

    def succeed(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class TransformersEngine:
    """An engine with its own copy of a model, and its ASGI app."""

    def __init__(self, model: Any, tokenizer: Any, *, name: str = "policy", most_at_once: int = 64) -> None:
        """Copy `model`. At most `most_at_once` requests form a batch."""
        self.name = name
        self._tokenizer = tokenizer
        # A deep copy would not do: trainers patch their models, and a copied patch calls the original model.
        self.model = type(model)(copy.deepcopy(model.config)).to(model.device, model.dtype).eval()
        self.model.load_state_dict(model.state_dict())
        self._most_at_once = most_at_once
        self._waiting: list[Sampling] = []
        self._worker: asyncio.Task[None] | None = None
        self.app = self._new_app()

    def load(self, state_dict: Mapping[str, Any]) -> None:
        """Replace the weights. No request may be in flight."""
        self.model.load_state_dict(state_dict)

    # --- Routes -------------------------------------------------------------------------------------------------

    def _new_app(self) -> FastAPI:
        app = FastAPI()
        app.get("/v1/models")(self._list_models)
        app.post("/v1/chat/completions")(self._answer)
        app.post("/detokenize")(self._detokenize)
        return app

    async def _list_models(self) -> dict[str, Any]:
        context = self.model.config.max_position_embeddings
        return {"object": "list", "data": [{"id": self.name, "object": "model", "max_model_len": context}]}

    async def _detokenize(self, body: dict[str, Any]) -> dict[str, str]:
        return {"prompt": self._tokenizer.decode(body["tokens"])}

    async def _answer(self, body: ChatRequest) -> JSONResponse:
        for name, legal in _NEUTRAL.items():
            value = (body.model_extra or {}).get(name)
            if value is not None and value not in legal:
                return _refusal(f"`{name}` can't be {value!r} here", name)
        prompt = self._prompt_ids(body)
        room = self.model.config.max_position_embeddings - len(prompt)
        most = min(body.max_completion_tokens or body.max_tokens or _DEFAULT_TOKENS, room)
        if most < 1:
            return _refusal(f"The prompt has {len(prompt)} tokens, more than the context.", "input_tokens")
        sampling = Sampling(
            prompt_ids=prompt,
            most=most,
            temperature=body.temperature,
            candidates=body.top_logprobs,
            generator=torch.Generator().manual_seed(body.seed) if body.seed is not None else None,
            done=asyncio.get_running_loop().create_future(),
        )
        self._waiting.append(sampling)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        await sampling.done
        return JSONResponse(self._completion(sampling, has_tools=bool(body.tools)))

    def _prompt_ids(self, body: ChatRequest) -> list[int]:
        rendered = self._render(body, body.messages, opens_reply=True)
        seen = body.required_prefix_token_ids
        if not seen:
            return rendered
        last = max(place for place, each in enumerate(body.messages) if each["role"] == "assistant")
        closed = self._render(body, body.messages[: last + 1], opens_reply=False)
        return splice(seen, closed, rendered) or rendered

    def _render(self, body: ChatRequest, messages: list[dict[str, Any]], *, opens_reply: bool) -> list[int]:
        ids: list[int] = self._tokenizer.apply_chat_template(
            messages, tools=body.tools, add_generation_prompt=opens_reply, return_dict=False
        )
        return ids

    def _completion(self, sampling: Sampling, *, has_tools: bool) -> dict[str, Any]:
        ended = sampling.ids[-1] == self._tokenizer.eos_token_id
        text = self._tokenizer.decode(sampling.ids[:-1] if ended else sampling.ids)
        message = _message(text, has_tools)
        reason = "length" if not ended else "tool_calls" if "tool_calls" in message else "stop"
        prompt, answer = len(sampling.prompt_ids), len(sampling.ids)
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": reason,
                    "token_ids": sampling.ids,
                    "logprobs": {"content": self._entries(sampling)},
                }
            ],
            "prompt_token_ids": sampling.prompt_ids,
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": answer,
                "total_tokens": prompt + answer,
            },
        }

    def _entries(self, sampling: Sampling) -> list[dict[str, Any]]:
        likeliest = sampling.likeliest or [[]] * len(sampling.ids)
        return [
            {
                **self._entry(token, logprob),
                "top_logprobs": [self._entry(*each) for each in candidates],
            }
            for token, logprob, candidates in zip(sampling.ids, sampling.logprobs, likeliest, strict=True)
        ]

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        return {"token": self._tokenizer.decode([token]), "logprob": logprob}

    # --- Sampling -----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Sample waiting requests until there are none."""
        await asyncio.sleep(_WAIT_FOR_MORE_S)
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most_at_once], self._waiting[self._most_at_once :]
            batch = [each for each in batch if not each.done.cancelled()]
            try:
                await asyncio.to_thread(self._sample, batch)
            except Exception as error:  # noqa: BLE001 - every caller raises it
                for each in batch:
                    each.fail(error)
            for each in batch:
                each.succeed()

    def _sample(self, batch: list[Sampling]) -> None:
        """Sample all answers, token by token. Prompts are padded on the left, so all answers start together."""
        width = max((len(each.prompt_ids) for each in batch), default=0)
        gaps = [width - len(each.prompt_ids) for each in batch]
        pad = self._tokenizer.pad_token_id
        inputs = torch.tensor([[pad] * gap + each.prompt_ids for gap, each in zip(gaps, batch, strict=True)])
        attention = torch.tensor([[0] * gap + [1] * (width - gap) for gap in gaps])
        temperatures = torch.tensor([[each.temperature] for each in batch])
        cache = None
        while not all(each.finished for each in batch):
            positions = (attention.cumsum(-1) - 1).clamp(min=0)[:, -inputs.shape[1] :]
            with torch.no_grad():
                output = self.model(
                    inputs,
                    attention_mask=attention,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                )
            cache = output.past_key_values
            logprobs = torch.log_softmax(output.logits[:, -1].float() / temperatures, dim=-1)
            inputs = torch.tensor(
                [[self._next(each, row)] for each, row in zip(batch, logprobs, strict=True)]
            )
            attention = torch.cat([attention, torch.ones_like(inputs)], dim=1)

    def _next(self, sampling: Sampling, logprobs: torch.Tensor) -> int:
        """Sample one token; a finished answer is padded."""
        if sampling.finished:
            return int(self._tokenizer.pad_token_id)
        token = int(torch.multinomial(logprobs.exp(), 1, generator=sampling.generator))
        sampling.ids.append(token)
        sampling.logprobs.append(float(logprobs[token]))
        if sampling.candidates:
            values, tokens = logprobs.topk(sampling.candidates)
            sampling.likeliest.append(list(zip(tokens.tolist(), values.tolist(), strict=True)))
        sampling.finished = token == self._tokenizer.eos_token_id or len(sampling.ids) >= sampling.most
        return token


def _message(text: str, has_tools: bool) -> dict[str, Any]:
    """Return the text as an assistant message. If any tool call is unreadable, everything stays text."""
    written = _CALL.findall(text) if has_tools else []
    calls = [_parse_call(each) for each in written]
    if not calls or None in calls:
        return {"role": "assistant", "content": text}
    return {
        "role": "assistant",
        "content": _CALL.sub("", text).strip() or None,
        "tool_calls": [
            {"id": f"call_{uuid.uuid4().hex[:8]}", "type": "function", "function": call} for call in calls
        ],
    }


def _parse_call(written: str) -> dict[str, str] | None:
    try:
        call = json.loads(written)
    except json.JSONDecodeError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    return {"name": call["name"], "arguments": json.dumps(arguments)} if isinstance(arguments, dict) else None


def _refusal(message: str, param: str) -> JSONResponse:
    error = {"message": message, "type": "BadRequestError", "param": param, "code": 400}
    return JSONResponse({"error": error}, status_code=400)
