"""Datasets before a run: validation, statistics, merging by split, prompts, download and upload.

No output is written from malformed rows unless the caller allows it, and outputs are replaced atomically. The room
builds on `nemo_gym.rollouts` (rows and plans), `nemo_gym.responses` and `nemo_gym.config`.

Modules: `checking` (one row), `preparation` (all datasets of a run), `declared` (the datasets of a configuration),
`hub` (remote datasets), `prompts` (rows with prompt templates), `making` (scripts that create datasets).
"""
