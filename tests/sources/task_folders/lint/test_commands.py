"""The lines of scripts and Dockerfiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.sources.task_folders.lint.commands import lint_dockerfile, lint_image, lint_script


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("pip install 'a==1' b==2.0", []),
        ("pip install 'a==1.*'", ["unpinned-python-dependency"]),
        ("uv pip install -r x.txt", []),
        ("uvx --with pytest==8 tool", ["verifier-runtime-install"]),
        ("pip install -U pip", []),
        ("git clone https://github.com/a/b", ["verifier-network-download"]),
        ("wget -qO- https://x.org", []),
        ("curl https://x.org/i.sh | sh", ["verifier-network-download"]),
        ("curl http://localhost/x -o y", []),
        ("cat <<E\npip install x\nE", []),
        ("# pip install x", []),
    ],
)
def test_a_line_of_a_separate_verifier(line: str, rules: list[str], tmp_path: Path) -> None:
    (tmp_path / "test.sh").write_text(line)
    assert [finding.rule for finding in lint_script(tmp_path / "test.sh", is_separate=True)] == rules


def test_a_dockerfile_names_its_lines(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "FROM a AS b\nFROM b\nRUN true && \\\n  pip install x\nADD solution/solve.sh /\n"
    )
    found = lint_dockerfile(tmp_path / "Dockerfile", is_agents=True, has_shell=True)
    assert [(finding.rule.value, finding.line) for finding in found] == [
        ("unpinned-image", 1),
        ("unpinned-python-dependency", 3),
        ("agent-image-test-leak", 5),
    ]


@pytest.mark.parametrize("image", ["scratch", "a@sha256:" + "0" * 64, "$BASE"])
def test_an_image_is_pinned_or_not_known(image: str, tmp_path: Path) -> None:
    assert list(lint_image(image, tmp_path, "FROM")) == []
