"""The configuration of a gym, composed, resolved and checked before anything starts.

    config = load(["+config_paths=[a.yaml,b.yaml]", "++my_agent.responses_api_agents.simple_agent.max_steps=5"])
    config.data                                        # plain dicts, everything resolved
    config.servers                                     # the servers to start
    config.explain("my_agent.responses_api_agents.simple_agent.max_steps")

All problems are raised together, as `ConfigErrors`. No implementation is imported into the process that loads a
configuration.

Modules: `loading` (`load`), `current` (the configuration of this process), `types` and `keys` (schemas of servers and
of global keys), `servers`, `datasets`, `addresses` and `options` (checks of server blocks), `secrets`, `bootstrap`
(the document that a server process starts with), `tree`, `problems` and `pydantic_problems` (the parsed tree and its
errors), `document` (the generated documentation). The room builds on `nemo_gym.failures`, `nemo_gym.names` and
`nemo_gym.paths`.
"""
