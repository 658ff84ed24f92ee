"""Inputs of tasks that lie beside their rows: `prompts` (templates of messages) and `skills` (folders of instructions).

The room builds on `config` and `rows`.
"""
