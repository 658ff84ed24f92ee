"""Converts the content parts of messages between both APIs.

| Responses API | Chat Completions |
|---|---|
| `input_text`, `output_text` | `text` |
| `input_image` with `image_url`, `detail` | `image_url` |
| `input_audio` | `input_audio` |
| `input_file` with `file_data`, `filename`, `file_id` | `file` |
| `input_video` with `video_url` (an extension of vLLM and NeMo Gym) | `video_url` |
| `refusal` | `refusal` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from nemo_gym.responses.problems import ConversionProblems

Part: TypeAlias = dict[str, Any]
_Converter: TypeAlias = Callable[[Mapping[str, Any], str, ConversionProblems], Part]

_FILE_FIELDS = ("file_data", "file_id", "filename")


def convert_content_to_chat(content: object, field: str, problems: ConversionProblems) -> str | list[Part]:
    """Return the content of a Responses message, a string or parts, as that of a chat message."""
    return content if isinstance(content, str) else convert_parts_to_chat(content, field, problems)


def convert_parts_to_chat(parts: object, field: str, problems: ConversionProblems) -> list[Part]:
    """Return Responses content parts as chat parts. Parts without an equivalent are added to `problems`."""
    return _convert_parts(parts, _TO_CHAT, field, problems)


def convert_content_to_responses(
    content: object, field: str, problems: ConversionProblems
) -> str | list[Part]:
    """Return the content of a chat message, a string or parts, as that of a Responses message."""
    return content if isinstance(content, str) else convert_parts_to_responses(content, field, problems)


def convert_parts_to_responses(parts: object, field: str, problems: ConversionProblems) -> list[Part]:
    """Return chat content parts as Responses input parts."""
    return _convert_parts(parts, _TO_RESPONSES, field, problems)


def require_text(given: Mapping[str, Any], key: str, field: str, problems: ConversionProblems) -> str:
    """Return the string under `key`, or add a problem and return an empty string."""
    value = given.get(key)
    if not isinstance(value, str):
        problems.add(f"{field}.{key}", "must be a string")
        return ""
    return value


def present(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the named fields that have a value."""
    return {name: given[name] for name in names if given.get(name) is not None}


def _convert_parts(
    parts: object,
    converters: Mapping[str, tuple[frozenset[str], _Converter]],
    field: str,
    problems: ConversionProblems,
) -> list[Part]:
    if not isinstance(parts, list):
        problems.add(field, "must be a string or a list of content parts")
        return []
    converted = []
    for index, part in enumerate(parts):
        where = f"{field}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        entry = converters.get(kind) if isinstance(kind, str) else None
        if entry is None:
            problems.add(f"{where}.type", f"{kind!r} is no content part of the other API")
            continue
        known, convert = entry
        if not part.keys() <= known:
            problems.add_unknown(part, known, f"{where}.")
        converted.append(convert(part, where, problems))
    return converted


# --- Responses to chat ------------------------------------------------------------------------------------------


def _chat_text(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    return {"type": "text", "text": require_text(part, "text", field, problems)}


def _chat_image(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    if part.get("file_id") is not None:
        problems.add(f"{field}.file_id", "chat takes images by URL only")
        return {}
    url = require_text(part, "image_url", field, problems)
    return {"type": "image_url", "image_url": {"url": url, **present(part, "detail")}}


def _chat_file(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    if part.get("file_url") is not None:
        problems.add(f"{field}.file_url", "chat takes files as `file_data` or `file_id` only")
    return {"type": "file", "file": present(part, *_FILE_FIELDS)}


def _chat_video(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    return {"type": "video_url", "video_url": {"url": require_text(part, "video_url", field, problems)}}


# --- Both ways --------------------------------------------------------------------------------------------------


def _audio(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    audio = part.get("input_audio")
    if not isinstance(audio, dict):
        problems.add(f"{field}.input_audio", "must be an object with `data` and `format`")
    return {"type": "input_audio", "input_audio": audio}


def _refusal(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    return {"type": "refusal", "refusal": require_text(part, "refusal", field, problems)}


# --- Chat to Responses ------------------------------------------------------------------------------------------


def _input_text(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    return {"type": "input_text", "text": require_text(part, "text", field, problems)}


def _input_image(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    image = part.get("image_url")
    if not isinstance(image, dict):
        problems.add(f"{field}.image_url", "must be an object with `url`")
        return {}
    url = require_text(image, "url", f"{field}.image_url", problems)
    problems.add_unknown(image, {"url", "detail"}, f"{field}.image_url.")
    return {"type": "input_image", "image_url": url, **present(image, "detail")}


def _input_file(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    file = part.get("file")
    if not isinstance(file, dict):
        problems.add(f"{field}.file", "must be an object")
        return {}
    problems.add_unknown(file, set(_FILE_FIELDS), f"{field}.file.")
    return {"type": "input_file", **present(file, *_FILE_FIELDS)}


def _input_video(part: Mapping[str, Any], field: str, problems: ConversionProblems) -> Part:
    video = part.get("video_url")
    if not isinstance(video, dict):
        problems.add(f"{field}.video_url", "must be an object with `url`")
        return {}
    return {"type": "input_video", "video_url": require_text(video, "url", f"{field}.video_url", problems)}


_TO_CHAT: Mapping[str, tuple[frozenset[str], _Converter]] = {
    "input_text": (frozenset({"type", "text"}), _chat_text),
    # Annotations and logprobs are not part of the model's input.
    "output_text": (frozenset({"type", "text", "annotations", "logprobs"}), _chat_text),
    "input_image": (frozenset({"type", "image_url", "detail", "file_id"}), _chat_image),
    "input_audio": (frozenset({"type", "input_audio"}), _audio),
    "input_file": (frozenset({"type", "file_url", *_FILE_FIELDS}), _chat_file),
    "input_video": (frozenset({"type", "video_url"}), _chat_video),
    "refusal": (frozenset({"type", "refusal"}), _refusal),
}

_TO_RESPONSES: Mapping[str, tuple[frozenset[str], _Converter]] = {
    "text": (frozenset({"type", "text"}), _input_text),
    "image_url": (frozenset({"type", "image_url"}), _input_image),
    "input_audio": (frozenset({"type", "input_audio"}), _audio),
    "file": (frozenset({"type", "file"}), _input_file),
    "video_url": (frozenset({"type", "video_url"}), _input_video),
    "refusal": (frozenset({"type", "refusal"}), _refusal),
}
