"""The commands that make certificates for a gym, in `docs/cluster.md`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from docs.snippets import DOCS, snippets_of
from nemo_gym.tls import find_tls_faults


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_the_certificate_of_the_page_is_valid_for_its_names_only(tmp_path: Path) -> None:
    snippets = snippets_of((DOCS / "cluster.md").read_text(encoding="utf-8"))
    (block,) = [each.text for each in snippets if each.value == "tests/docs/test_tls_block.py"]
    done = subprocess.run(
        ["bash", "-eu", "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    tls = {key: str(tmp_path / f"{key}.pem") for key in ("cert", "key", "ca")}
    assert find_tls_faults(tls, ["10.0.0.1", "node1"]) == []
    assert len(find_tls_faults(tls, ["10.0.0.1", "node2"])) == 1
