"""Episodes: one attempt at a task, from opening its session to closing it.

The driver runs `POST /run` of every agent server, which the ecosystem also calls an environment server. A session is
always closed, and a failure never becomes a reward. The room builds on `serving` and `transport`.

- `driver`: `drive_episode`, the end reasons, and the handling of truncated attempts
"""
