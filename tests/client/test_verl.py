"""The dataset for verl's SFT trainer, on a stand-in for verl's own, which reads a column as it is."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest

NAME = "verl.utils.dataset.multiturn_sft_dataset"


class MultiTurnSFTDataset:
    def __init__(self, column: list[Any]) -> None:
        self.column = column
        self._read_files_and_process()

    def _read_files_and_process(self) -> None:
        self.tools = self.column


def test_tools_are_parsed_from_text(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = NAME.split(".")
    for end in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    monkeypatch.setattr(sys.modules[NAME], "MultiTurnSFTDataset", MultiTurnSFTDataset, raising=False)
    monkeypatch.delitem(sys.modules, "nemo_gym.client.verl", raising=False)
    dataset = importlib.import_module("nemo_gym.client.verl").TextToolsDataset
    monkeypatch.delitem(sys.modules, "nemo_gym.client.verl")
    assert dataset(['[{"type": "function"}]', None, float("nan")]).tools == [
        [{"type": "function"}],
        None,
        None,
    ]
