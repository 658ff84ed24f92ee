"""The text of a `verifier.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.sources.task_folders.verifier_program import find_program_fault


@pytest.mark.parametrize(
    "text",
    [
        "def verify(workspace):\n    return 1\n",
        "async def verify(): ...\n",
        "from scoring import verify\n",
        "from scoring import score as verify\n",
        "from scoring import *\n",
        "try:\n    import x\nexcept ImportError:\n    verify = print\n",
    ],
)
def test_a_program_with_verify_has_no_fault(text: str, tmp_path: Path) -> None:
    (tmp_path / "verifier.py").write_text(text)
    assert find_program_fault(tmp_path / "verifier.py") is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("\ndef verify(:\n", "line 2: "),
        ("return = 1", "line 1: "),
        ("\0", "null bytes"),
        ("\udcff", "decode"),
        ("", "no function `verify`"),
        ("verify()\n", "no function `verify`"),
        ("class Verifier:\n    def verify(self): ...\n", "no function `verify`"),
        ("def check():\n    def verify(): ...\n", "no function `verify`"),
    ],
)
def test_a_program_that_cannot_give_a_reward_has_a_fault(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "verifier.py").write_bytes(text.encode(errors="surrogateescape"))
    assert fault in str(find_program_fault(tmp_path / "verifier.py"))
