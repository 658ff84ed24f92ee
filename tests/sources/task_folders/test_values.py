"""The forms of texts in `task.toml`."""

from __future__ import annotations

import pytest

from nemo_gym.sources.task_folders.values import (
    check_destination,
    check_header,
    check_host,
    check_step_name,
    fill_variables,
    find_host_variables,
    parse_size,
)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("EXAMPLE.org.", "example.org"),
        ("*.x.org", "*.x.org"),
        ("::0001", "::1"),
        ("10.0.0.0/8", "10.0.0.0/8"),
    ],
)
def test_a_host_has_a_plain_form(given: str, plain: str) -> None:
    assert check_host(given) == plain


@pytest.mark.parametrize(
    "host", ["http://x.org", "x.org:80", "*", "a.*.b", "*.10.0.0.1", "10.0.0.1/8", "", "-x", "fe80::1%eth0"]
)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError):
        check_host(host)


@pytest.mark.parametrize("name", ["..", "a/b", "CON", "nul.txt", "a.", " ", "a\0", "x" * 256])
def test_a_step_has_a_name_that_every_file_system_takes(name: str) -> None:
    with pytest.raises(ValueError):
        check_step_name(name)
    assert check_step_name("step one") == "step one"


@pytest.mark.parametrize("path", ["/a", "../a", "a/../../b", "manifest.json", "a\\b", "./manifest.json/"])
def test_a_destination_stays_below_the_artifacts(path: str) -> None:
    if path.startswith("./"):
        assert check_destination(path) == path
        return
    with pytest.raises(ValueError):
        check_destination(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer abc"),
        ("X-Key", "${K:-abc}"),
        ("A b", "x"),
        ("A", "x\ny"),
        ("A", "${X"),
        ("cookie", "a=b"),
    ],
)
def test_a_header_names_its_credential_and_has_none(name: str, value: str) -> None:
    with pytest.raises(ValueError):
        check_header(name, value)
    check_header("Authorization", "Bearer ${TOKEN}")
    check_header("Accept", "text")


def test_sizes_and_variables() -> None:
    assert [parse_size(text) for text in ("1.5g", "512M", "2048K")] == [1536, 512, 2]
    env = {"A": "${ONE}", "B": "${TWO:-2}", "C": "text ${ONE}"}
    assert find_host_variables(env) == {"ONE": None, "TWO": "2"}
    assert fill_variables(env, {"ONE": "1"}.get) == {"A": "1", "B": "2", "C": "text ${ONE}"}
    with pytest.raises(ValueError, match="A needs the variable"):
        fill_variables(env, lambda _: None)
