"""Tasks that others publish as folders, read and run as they are.

- `task_folders`: Harbor's format (`task.toml`, an instruction, an environment, tests, a solution)
- `tool_tasks`: the files of a tool task (`instruction.md`, `tools.py`, `db.json`, `gold.json`)
- `tool_world`: a tool task's state, tools and verifier, in the process that imports its code
"""
