"""Open rollout sessions for asynchronous trainers: tasks in while they run, whole groups out.

- `options`: `SessionOptions`, checked before a session opens
- `book`: `GroupBook`, the pure object that decides what starts and what is delivered
- `groups`, `staleness`, `admission`, `curriculum`: the policies, pure too
- `session`: `RolloutSession`, a book with a collector
- `group_lines`: the lines of delivered groups
- `state`: a session's state as JSON
"""
