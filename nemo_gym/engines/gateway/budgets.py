"""Model calls of attempts with a budget: refused when nothing is left, and counted when they are answered."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.engines.record.call import DIALECTS, REPLAYED_MARK
from nemo_gym.json_objects import member, object_in
from nemo_gym.responses.usage import read_token_counts
from nemo_gym.transport.budget import BudgetLedger, Tokens
from nemo_gym.transport.memory import collect_reply
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import send_reply


async def answer_within_budget(
    ledger: BudgetLedger, server: str, handler: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer a call by `handler`, within the budget of its attempt. Raises `EngineError` if nothing is left."""
    if scope["path"] not in DIALECTS or not isinstance(receive, WholeBody):
        await handler(scope, receive, send)
        return
    ledger.require_left(server)
    reply = await collect_reply(handler, scope, receive)
    if not ledger.spent:  # else this server has asked another model server, which has counted the call
        tokens = Tokens(1, *read_token_counts(member(object_in(reply.body), "usage")))
        ledger.note(server, tokens, is_replayed=REPLAYED_MARK in scope)
    await send_reply(send, reply)
