"""The `reasoning_gym` library with `eval` replaced. Importing this module takes seconds."""

from __future__ import annotations

import warnings

from resources_servers.reasoning_gym.guards import replace_eval

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library's dependencies warn when they are compiled
    from reasoning_gym.factory import DATASETS, create_dataset

replace_eval()

TASK_NAMES: tuple[str, ...] = tuple(sorted(name for name in DATASETS if name != "composite"))
"""Every dataset except `composite`, whose rows name the dataset that produced them."""

__all__ = ["TASK_NAMES", "create_dataset"]
