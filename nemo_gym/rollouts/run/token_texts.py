"""`<stem>_token_texts.json`: the texts of the token ids in a run's rows, for a viewer without a tokenizer.

The model servers that recorded the ids are asked for their texts when a collection ends. An object of the file maps an
id to its text. An id is missing if it is only a part of a character, or if two models have different texts for it. A
run without token ids has no such file.
"""

from __future__ import annotations

import asyncio
import logging
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_gym.failures import GymError
from nemo_gym.json_objects import member, object_in
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.plan.compression import build_journal_path
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.run.required_servers import MODEL_TYPE, is_server
from nemo_gym.rows.calls import token_ids_in
from nemo_gym.tokens.vocabulary import read_token_texts
from nemo_gym.transport import Caller, Deadline
from nemo_gym.transport.control import TOKEN_TEXTS
from nemo_gym.transport.directory import server_block

log = logging.getLogger(__name__)

_READ_S: Final = 3600.0
_IN_A_WORKER: Final = 64_000_000
"""Bytes of rows from which on they are read in a worker."""
_ANSWER_S: Final = 30.0


def models_with_ids(servers: Collection[str], config: Mapping[str, Any]) -> Iterator[str]:
    """Yield those of `servers` that are model servers and record token ids."""
    for name in sorted(servers):
        server = config.get(name)
        if is_server(server, MODEL_TYPE) and member(server_block(server), "return_token_id_information"):
            yield name


async def write_token_texts(files: RunFiles, caller: Caller, models: Collection[str]) -> None:
    """Write the texts that `models` give for the ids of a run's rows, beside those of earlier starts of the run.

    A failure is only logged: a run needs no texts.
    """
    path = next((each for each in (build_journal_path(files.rows), files.rows) if each.exists()), None)
    if path is None or not models:
        return
    try:
        ids = await _list_unknown_ids(path, files.token_texts)
        if ids:
            answers = await asyncio.gather(*(_ask(caller, model, ids) for model in models))
            await asyncio.to_thread(_add_texts, files.token_texts, _keep_agreed(answers))
    except GymError as error:
        log.info("the texts %s are not written: %s", files.token_texts, error)


async def _list_unknown_ids(rows: Path, texts: Path) -> list[int]:
    """Return the result of `unknown_ids`. A worker's start would take longer than reading a small file."""
    if (await asyncio.to_thread(rows.stat)).st_size < _IN_A_WORKER:
        return await asyncio.to_thread(unknown_ids, rows, texts)
    pool = WorkerPool(1)
    try:
        return await pool.run(unknown_ids, rows, texts, timeout_s=_READ_S)
    finally:
        await pool.close()


def unknown_ids(rows: Path, texts: Path) -> list[int]:
    """Return the ids in a file of rows that a file of texts does not have."""
    known = read_token_texts(texts)
    ids: set[int] = set()
    for line in read_lines(rows):
        ids |= token_ids_in(line.content)
    return sorted(ids - known.keys())


async def _ask(caller: Caller, model: str, ids: list[int]) -> dict[str, str]:
    reply = await caller.call(
        model,
        "POST",
        TOKEN_TEXTS,
        body=orjson.dumps({"ids": ids}),
        deadline=Deadline.after(_ANSWER_S),
        repeatable=True,
    )
    return (object_in(reply.body) if reply.ok else None) or {}


def _keep_agreed(answers: Collection[dict[str, str]]) -> dict[str, str]:
    texts = ChainMap(*answers)
    return {token: text for token, text in texts.items() if all(a.get(token, text) == text for a in answers)}


def _add_texts(path: Path, texts: Mapping[str, str]) -> None:
    if not texts:
        return
    earlier = orjson.loads(path.read_bytes()) if read_token_texts(path) else {}
    write_atomically(path, orjson.dumps({**earlier, **texts}))
