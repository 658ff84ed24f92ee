"""Records of attempts, as model servers leave them."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.engines.attempts.record import AttemptWriter
from nemo_gym.engines.record.deltas import RequestIndex, RequestParts


def leave_attempt(
    folder: Path, *, answered: int, replayed: int = 0, mismatch: bool = False, is_new: bool = False
) -> None:
    """Write a record with so many answered calls, of which the first `replayed` were answered from another."""
    writer, index = AttemptWriter(folder, "policy.0", "one", is_new=is_new), RequestIndex()
    for number in range(answered + 1):
        messages = [{"role": "user", "content": str(each)} for each in range(number + 1)]
        parts, call = RequestParts.from_body("chat", {"messages": messages}), f"call_{number}"
        line = {"server": "policy", "dialect": "chat", "started_at": float(number)}
        writer.begin(call, {**line, "request": index.build_delta(parts)})
        if number == answered:
            break
        about = {"replayed": f"call_{number}", "compared": 1} if number < replayed else {}
        writer.end(call, {"completed_at": number + 0.5, "status": 200, "answer": {"output": []}, **about})
    if mismatch:
        writer.note_mismatch({"text": "call 2 differs"})
