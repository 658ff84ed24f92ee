from __future__ import annotations

import asyncio
import sys

import pytest

from nemo_gym.resources._standard_error import StandardErrorCopy


@pytest.mark.parametrize(
    ("printed", "last"),
    [("a\\nb\\n\\n", "b"), ("", ""), ("x" * 9_000, "x" * 300), ("\\xff\\n", "\N{REPLACEMENT CHARACTER}")],
)
async def test_the_last_line_is_kept_and_all_is_copied(
    printed: str, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, errors = await StandardErrorCopy.open()
    with errors:
        program = f"import sys; sys.stderr.buffer.write(b'{printed}')"
        await (await asyncio.create_subprocess_exec(sys.executable, "-c", program, stderr=errors)).wait()
    assert await copy.read_last_line() == last
    await copy.close()
    copied = capsys.readouterr().err
    assert copied.strip().endswith(last)
    assert len(copied) >= len(last)
