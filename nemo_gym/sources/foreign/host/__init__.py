"""The program in which a foreign environment runs: the standard library, and one module for each kind.

    python .../host/__main__.py KIND

The environment's own interpreter runs it (3.11 or newer), with the environment's packages and without those of the gym,
so nothing here imports the gym. `nemo_gym.sources.foreign.process` is the other end.

Protocol, version 1. Requests come as JSON lines on standard input, answers go as JSON lines to what was standard output
when the program began; what the environment prints goes to standard error. A line has at most 16 MiB. Every message has
`v`, `id` (of the request) and `type`. Each request has one answer, a `result` or an `error`
`{code, message, retryable, where, traceback}`. `event` lines without an id show that the program is alive.

    request   fields                        fields of its result
    hello     versions, name, options       version, kind, package, package_version, python, pid
    describe                                name, version, digest, loop, tasks, infinite, seats, rewards, seeded, …
    tasks     cursor, limit, split, seed    tasks: [{id, prompt, tools, data}], cursor
    open      task, seed                    seat, observation, tools, info
    step      seat, text, calls             seat, observation, outputs, reward, rewards, done, truncated, info
    run       task, seed, models, limits    rewards, components, metrics, end, calls_seen, native
    close                                   {}
    ping                                    {}

An environment of the loop `ours` has `open`, `step` and `close`; one of the loop `theirs` has `run`, a whole attempt.
`models` has a `{base_url, key, model}` for each seat, and for each further name in `models` of the description, such as
a judge. `limits` has `turns`, the calls of the policy's seat. The result has `rewards` `{seat: number}`, `components`
`{seat: {name: {value, weight}}}` and `metrics` `{seat: {name: number}}`; `end` has `reason`, an end reason of rows, and
`detail`. A program serves one environment, and one attempt at a time. It ends when its standard input does.
"""
