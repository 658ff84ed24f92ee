"""`ng_prefetch`: images of task folders. The base system of this test has the programs of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.cli import prefetch
from nemo_gym.sandbox.providers.rootless.debian import name_base
from tests.sandbox.rootless_images import host_provider, needs_rootless, write_host_layer
from tests.sources.task_folders.task_maker import make_task


@needs_rootless
def test_images_are_made_and_those_that_cannot_be_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_task(tmp_path / "good")
    make_task(tmp_path / "wrong", environment__Dockerfile="FROM alpine\n")
    (tmp_path / "wrong" / "environment" / "Dockerfile").write_text("FROM alpine\n")
    with host_provider() as provider:
        write_host_layer(provider, name_base([]))
        with pytest.raises(SystemExit) as ended:
            prefetch.main([f"+folder={tmp_path}", f"+store={provider.store.folder}"])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert "good: " in said.out
    assert "FROM alpine" in said.err
