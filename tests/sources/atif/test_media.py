"""Images and audio become files of their content, if the format has their type."""

from __future__ import annotations

import base64
from pathlib import Path

from nemo_gym.sources.atif.media import MediaFolder

DATA = base64.b64encode(b"content").decode()


def test_an_image_is_written_once_and_read_back(tmp_path: Path) -> None:
    media = MediaFolder(tmp_path)
    source = media.keep_image(f"data:image/png;base64,{DATA}")
    assert source is not None
    assert source == media.keep_image(f"data:image/png;base64,{DATA}")
    assert [path.read_bytes() for path in (tmp_path / "media").iterdir()] == [b"content"]
    assert media.read_data(source["path"]) == DATA


def test_other_types_other_spellings_and_urls_without_a_type_are_left(tmp_path: Path) -> None:
    media = MediaFolder(tmp_path)
    for url in ("data:image/tiff;base64,AAAA", "data:image/png;base64,A A", "https://x.org/a", "file-id"):
        assert media.keep_image(url) is None
    assert media.keep_image("https://x.org/a.jpg?b") == {
        "media_type": "image/jpeg",
        "path": "https://x.org/a.jpg?b",
    }
    assert media.keep_audio(DATA, "pcm") is None
    assert media.keep_audio(DATA, "mp3") == {
        "media_type": "audio/mpeg",
        "path": next(f"media/{path.name}" for path in (tmp_path / "media").iterdir()),
    }


def test_nothing_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    media = MediaFolder(tmp_path / "in")
    for path in ("../secret", "link", "/etc/hostname", "none", "."):
        assert media.read_data(path) is None
