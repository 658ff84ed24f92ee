"""The files of a run, safe against `kill -9`, full disks and power cuts.

A row is written whole by one system call; a torn last line is cut off and kept on resume. Nothing is deleted: files of
earlier runs are moved aside. Builds on `plan`.

- `files`: the paths of a run
- `journal`: opens or resumes the output of a run
- `manifest`: the identity of a run; a resume with another identity is refused
- `finished`: the rollouts that have a row
- `materialized`: the planned rows as sent to agents
- `nodes`: the machines of the run's gym
- `atomic`: files that are replaced whole or not at all
- `disk`: the system calls behind all of them, replaceable in simulations
"""
