"""Audio of a row: `metadata.audio_path`, `audio_paths` or `audio_data`, put before the text of the last user message.

The Responses API has no audio in a request, so datasets name it in `metadata`. Files are sent as data URLs.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_gym.failures import InputError

KEYS = ("audio_data", "audio_path", "audio_paths")
_FORMATS = {".wav": "wav", ".mp3": "mpeg", ".flac": "flac", ".ogg": "ogg", ".m4a": "mp4", ".webm": "webm"}


def with_audio(chat: dict[str, Any], root: str | None) -> dict[str, Any]:
    """Return the chat request with the audio that its metadata names. Files are below `root`.

    Raises `InputError` for metadata that names no readable audio.
    """
    given = chat.get("metadata")
    metadata: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    named = [key for key in KEYS if metadata.get(key)]
    if not named:
        return chat
    if len(named) > 1:
        raise _refused(named[1], f"cannot be combined with `metadata.{named[0]}`")
    parts = [{"type": "audio_url", "audio_url": {"url": url}} for url in _urls(named[0], metadata, root)]
    rest = {key: value for key, value in metadata.items() if key not in KEYS}
    body = {name: value for name, value in chat.items() if name != "metadata"}
    return {**body, "messages": _before_text(chat["messages"], parts), **({"metadata": rest} if rest else {})}


def _urls(key: str, metadata: Mapping[str, Any], root: str | None) -> list[str]:
    value = metadata[key]
    if key == "audio_paths":
        if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
            raise _refused(key, "must be a list of paths")
        return [_data_url(key, path, root) for path in value]
    if not isinstance(value, str):
        raise _refused(key, "must be a string")
    return [value if key == "audio_data" else _data_url(key, value, root)]


def _data_url(key: str, path: str, root: str | None) -> str:
    if root is None:
        raise _refused(key, f"names the file {path!r}, and the model server has no `audio_root`")
    folder = Path(root).resolve()
    file = (folder / path).resolve()
    if not file.is_relative_to(folder):  # a request may come from an agent that nobody trusts
        raise _refused(key, f"{path!r} is not below `audio_root`")
    kind = _FORMATS.get(file.suffix.lower())
    if kind is None:
        raise _refused(key, f"{path!r} is not one of {', '.join(_FORMATS)}")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _refused(key, f"cannot be read: {file}: {error.strerror}") from error
    return f"data:audio/{kind};base64,{base64.b64encode(content).decode()}"


def _before_text(messages: list[Any], parts: list[dict[str, Any]]) -> list[Any]:
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") == "user":
            content = messages[place].get("content") or []
            text = [{"type": "text", "text": content}] if isinstance(content, str) else content
            message = {**messages[place], "content": [*parts, *text]}
            return [*messages[:place], message, *messages[place + 1 :]]
    return [*messages, {"role": "user", "content": parts}]


def _refused(key: str, problem: str) -> InputError:
    return InputError(f"`metadata.{key}` {problem}", code="bad_audio", param=f"metadata.{key}")
