"""Images and audio: inside a row as data, beside a trajectory as files."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_DATA_URL = re.compile(r"data:(\w+/[\w.+-]+);base64,(.+)", re.DOTALL)
_ENDINGS = {
    **{f"image/{kind}": kind for kind in ("jpeg", "png", "gif", "webp")},
    **{f"audio/{kind}": kind for kind in ("wav", "mpeg", "mp4", "aac", "ogg", "flac", "webm", "aiff")},
}
_SPELLINGS = {"jpg": "image/jpeg", "mp3": "audio/mpeg"}
AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
"""The formats of the Responses API."""
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class MediaFolder:
    """The folder of a trajectory, in which the paths of its media begin."""

    root: Path
    place: str = "media"
    """The folder below it for new files."""

    def keep_image(self, url: str) -> dict[str, str] | None:
        """Return the source of an image; None for one that the format cannot name."""
        match = _DATA_URL.fullmatch(url)
        if match is None:
            kind = _guess_type(url)
            return {"media_type": kind, "path": url} if kind and "://" in url else None
        return self._keep(match[1], match[2], "image/")

    def keep_audio(self, data: str, form: str) -> dict[str, str] | None:
        """Return the source of audio data; None for data or a format that the format cannot name."""
        return self._keep(AUDIO_TYPES.get(form, ""), data, "audio/")

    def _keep(self, kind: str, data: str, family: str) -> dict[str, str] | None:
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return None
        if kind not in _ENDINGS or not kind.startswith(family) or base64.b64encode(content).decode() != data:
            return None
        name = f"{self.place}/{hashlib.sha256(content).hexdigest()[:32]}.{_ENDINGS[kind]}"
        file = self.root / name
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return {"media_type": kind, "path": name}

    def read_data(self, path: str) -> str | None:
        """Return a file as base64; None if it is not in the folder, or is too large."""
        file = (self.root / path).resolve()
        if not file.is_relative_to(self.root.resolve()) or not file.is_file():
            return None
        return base64.b64encode(file.read_bytes()).decode() if file.stat().st_size <= _MOST_BYTES else None


def _guess_type(url: str) -> str | None:
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    known = {name: kind for kind, name in _ENDINGS.items() if kind.startswith("image/")} | _SPELLINGS
    return known.get(ending)
