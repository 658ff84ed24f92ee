"""Task folders in Harbor's format, schema 1.4: an instruction, an environment, tests, a solution.

    settings     `task.toml` as data
    values       the forms of its texts: hosts, artifacts, headers, variables
    folder       one task folder: its files, links and instructions
    ignoring     the files that `.harborignore` and `.gitignore` leave out
    digest       the identity of a folder's content
    dataset      a folder of tasks, or a `dataset.toml`
    requirements what a task needs of a sandbox, and what a provider cannot give
    rows         a task row for each folder
    lint         findings by rule
    sandboxes    the sandbox of a trial: images, commands, files
    trial        one attempt: start, health check, hooks, artifacts, verifier, steps
    rewards      the reward files of a verifier
    environment  the resources server: a session is a trial
    checking     the solution and nothing, for `gym dataset validate`
    template, pull   a new task; tasks from elsewhere

The environment is the resources server `task_folders`, and no environment server, because any agent of the gym can then
play these tasks: an attempt has a session and tools like any other, and the episode driver opens, verifies and closes
it. A run without task folders imports nothing of this.
"""
