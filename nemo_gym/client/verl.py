"""A dataset for verl's SFT trainer whose rows have tools of any shape: JSON text in the column `tools`.

    data.custom_cls.path=pkg://nemo_gym.client.verl data.custom_cls.name=TextToolsDataset

`ng_export +format=verl +options.tools=text` writes such files. In a nested Parquet column each tool would get the
fields of all tools, and chat templates would write the empty ones into the prompt.
"""

from __future__ import annotations

import json
from typing import Any

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset


class TextToolsDataset(MultiTurnSFTDataset):  # type: ignore[misc]  # verl has no types
    """verl's dataset of conversations, with tools parsed from JSON text; null means none."""

    tools: list[Any]

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        self.tools = [json.loads(tools) if isinstance(tools, str) else None for tools in self.tools]
