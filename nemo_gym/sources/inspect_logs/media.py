"""Images and audio of a log: data in a row and in a log, where a trajectory has files beside it."""

from __future__ import annotations

import re
from pathlib import Path

from nemo_gym.sources.atif.media import AUDIO_TYPES, MediaFolder

_DATA_URL = re.compile(r"data:(\w+/[\w.+-]+);base64,(.+)", re.DOTALL)


class InlineMedia(MediaFolder):
    """The path of a medium is its data URL."""

    def __init__(self) -> None:
        super().__init__(Path())

    def keep_image(self, url: str) -> dict[str, str] | None:
        match = _DATA_URL.fullmatch(url)
        return {"media_type": match[1], "path": url} if match is not None else super().keep_image(url)

    def keep_audio(self, data: str, form: str) -> dict[str, str] | None:
        kind = AUDIO_TYPES.get(form)
        return None if kind is None else {"media_type": kind, "path": f"data:{kind};base64,{data}"}

    def read_data(self, path: str) -> str | None:
        match = _DATA_URL.fullmatch(path)
        return None if match is None else match[2]
