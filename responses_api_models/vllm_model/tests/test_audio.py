"""Audio of a row, which is put before the text of the last user message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import InputError
from responses_api_models.vllm_model.audio import with_audio

URL = "data:audio/wav;base64,UklGRg=="


def chat_with(metadata: dict[str, Any], content: Any = "Transcribe.") -> dict[str, Any]:
    earlier = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    return {"messages": [*earlier, {"role": "user", "content": content}], "metadata": metadata}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    (tmp_path / "b.MP3").write_bytes(b"RIFF")
    return tmp_path


def part(url: str) -> dict[str, Any]:
    return {"type": "audio_url", "audio_url": {"url": url}}


@pytest.mark.parametrize("content", ["Transcribe.", [{"type": "text", "text": "Transcribe."}]])
def test_audio_comes_before_the_text(root: Path, content: Any) -> None:
    body = with_audio(chat_with({"audio_path": "a.wav"}, content), str(root))
    assert body["messages"][-1]["content"] == [part(URL), {"type": "text", "text": "Transcribe."}]
    assert body["messages"][0] == {"role": "user", "content": "x"}
    assert "metadata" not in body


def test_every_form_of_the_metadata(root: Path) -> None:
    absolute = str(root / "a.wav")
    several = with_audio(chat_with({"audio_paths": [absolute, "b.MP3"], "id": "1"}), str(root))
    assert several["messages"][-1]["content"][:2] == [part(URL), part("data:audio/mpeg;base64,UklGRg==")]
    assert several["metadata"] == {"id": "1"}
    given = with_audio(chat_with({"audio_data": URL}), None)
    assert given["messages"][-1]["content"][0] == part(URL)
    alone = with_audio({"messages": [], "metadata": {"audio_data": URL}}, None)
    assert alone["messages"] == [{"role": "user", "content": [part(URL)]}]


def test_a_request_without_audio_is_left_alone() -> None:
    chat = chat_with({"id": "1"})
    assert with_audio(chat, None) is chat


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"audio_path": "a.wav", "audio_data": URL}, "cannot be combined"),
        ({"audio_paths": "a.wav"}, "must be a list"),
        ({"audio_path": ["a.wav"]}, "must be a string"),
        ({"audio_path": "a.txt"}, "is not one of"),
        ({"audio_path": "missing.wav"}, "cannot be read"),
    ],
)
def test_unusable_metadata_is_refused(root: Path, metadata: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        with_audio(chat_with(metadata), str(root))


@pytest.mark.parametrize("path", ["a.wav", "/a.wav"])
def test_a_file_needs_a_root(path: str) -> None:
    with pytest.raises(InputError, match="audio_root"):
        with_audio(chat_with({"audio_path": path}), None)


@pytest.mark.parametrize("path", ["../a.wav", "link/a.wav", "{parent}/a.wav"])
def test_a_file_outside_the_root_is_not_read(root: Path, path: str) -> None:
    (root.parent / "a.wav").write_bytes(b"secret")
    (root / "link").symlink_to(root.parent)
    with pytest.raises(InputError, match="not below"):
        with_audio(chat_with({"audio_path": path.format(parent=root.parent)}), str(root))
