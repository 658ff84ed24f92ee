"""Media of a log are data."""

from __future__ import annotations

from nemo_gym.sources.inspect_logs.media import InlineMedia


def test_a_medium_is_its_data_url() -> None:
    media = InlineMedia()
    image = "data:image/png;base64,aGk="
    assert media.keep_image(image) == {"media_type": "image/png", "path": image}
    assert media.keep_image("https://a.org/b.jpg") == {
        "media_type": "image/jpeg",
        "path": "https://a.org/b.jpg",
    }
    assert media.keep_image("attachment://1") is None
    audio = media.keep_audio("aGk=", "mp3")
    assert audio == {"media_type": "audio/mpeg", "path": "data:audio/mpeg;base64,aGk="}
    assert media.read_data(audio["path"]) == "aGk="
    assert media.keep_audio("aGk=", "midi") is None
    assert media.read_data("/etc/passwd") is None
