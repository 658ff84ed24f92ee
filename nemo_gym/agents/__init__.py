"""Agents: the base class of agent servers, and the parts that policy loops are built from.

An author writes the policy loop; `nemo_gym.episodes` runs the episode around it. The room builds on `episodes`.

- `agent`: the base class of agent servers
- `policy`: the conversation of an attempt, and the model that continues it
- `tools`: the client for the tools of a task
"""
