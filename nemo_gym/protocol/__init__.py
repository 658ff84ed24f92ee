"""The ecosystem's bodies for episodes, sessions, tools and observations, as data.

Environment servers, agents and resources servers exchange them over HTTP. The modules at the ecosystem's import paths
(`nemo_gym.episode_types`, `nemo_gym.tool_access`, …) re-export them. No I/O.

- `episodes`: the identity of an episode and of its task, its request, response and failure
- `failure_kinds`: the registered names of failures
- `observations`: the record of agents, their tool calls, turns and context compactions
- `resources_sessions`, `agent_sessions`: opening and closing a session at either role
- `sandbox_access`, `tool_access`: the access that an environment server grants to an agent
- `single_agent_turn`: the episode of one agent turn
- `tasks`: from a task row to a task with its identity
"""
