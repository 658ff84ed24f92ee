"""The lines of a Dockerfile."""

from __future__ import annotations

import pytest

from nemo_gym.sandbox.providers.rootless.dockerfile import (
    UnsupportedLine,
    expand_variables,
    parse_assignments,
    parse_dockerfile,
)

EXAMPLE = """\
# a comment
ARG TAG=22.04
FROM ubuntu:${TAG}
RUN apt-get update && \\
    # within
    apt-get install -y gcc

COPY --chown=1:1 --chmod=755 a b /dst/
RUN <<EOF
echo one
echo two
EOF
RUN cat <<'END' > /x
text
END
LABEL a=b
CMD ["sh"]
ENTRYPOINT ["run", "it"]
"""


def test_lines_are_joined_and_those_without_effect_are_left_out() -> None:
    found = [(each.name, each.line, each.value, dict(each.options)) for each in parse_dockerfile(EXAMPLE)]
    assert found == [
        ("ARG", 2, "TAG=22.04", {}),
        ("FROM", 3, "ubuntu:${TAG}", {}),
        ("RUN", 4, "apt-get update &&      apt-get install -y gcc", {}),
        ("COPY", 8, "a b /dst/", {"chown": "1:1", "chmod": "755"}),
        ("RUN", 9, "echo one\necho two\n", {}),
        ("RUN", 13, "cat <<'END' > /x\ntext\nEND\n", {}),
        ("ENTRYPOINT", 18, '["run", "it"]', {}),
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("FROM a\nFROM b", "line 2: a second stage"),
        ("RUN x", "it has no FROM"),
        ("FROM a\nSHELL ['x']", "line 2: the instruction SHELL"),
        ("FROM a\nCOPY --from=b x y", "line 2: the option --from of COPY"),
        ("FROM a\nRUN --mount=type=secret,id=x y", "line 2: the option --mount of RUN"),
        ("FROM a\nADD https://x.org/y /y", "line 2: ADD of an archive or of a URL"),
        ("FROM a\nADD x.tar.gz /y", "line 2: ADD of an archive or of a URL"),
        ("FROM a\nCOPY <<E /x\nE", "line 2: a heredoc of COPY"),
        ("FROM a\nSHELL b\nCOPY --from=x y z", "line 2: the instruction SHELL; line 3: the option --from"),
    ],
)
def test_a_line_that_cannot_be_applied_is_named(text: str, named: str) -> None:
    with pytest.raises(UnsupportedLine) as raised:
        parse_dockerfile(text)
    assert named in str(raised.value)


def test_a_cache_mount_has_no_effect() -> None:
    assert parse_dockerfile("FROM a\nRUN --mount=type=cache,target=/x make")[1].value == "make"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$A/${A}", "1/1"),
        ("${B:-two}", "two"),
        ("${B:-$A}", "1"),
        ("${A:+set}${B:+set}", "set"),
        (r"\$A", "$A"),
        ("$MISSING.", "."),
    ],
)
def test_variables_are_expanded(text: str, expanded: str) -> None:
    assert expand_variables(text, {"A": "1"}) == expanded


def test_assignments_have_two_forms() -> None:
    assert parse_assignments("A=1 B='two words'") == {"A": "1", "B": "two words"}
    assert parse_assignments("A two words") == {"A": "two words"}
