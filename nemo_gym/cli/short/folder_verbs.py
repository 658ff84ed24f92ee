"""The verbs of task folders, as data."""

from __future__ import annotations

from collections.abc import Mapping

from nemo_gym.cli.short.flags import JSON, Flag, first_or_list
from nemo_gym.cli.short.translation import names_as, translate_prefetch
from nemo_gym.cli.short.verb import Verb

TASK_FOLDERS: Mapping[str, Verb] = {
    "init": Verb(
        command="init_task",
        summary="Write a new task folder, which works as it is.",
        example="gym dataset init tasks/count_words",
        arguments="FOLDER",
        translate=names_as("folder"),
    ),
    "validate": Verb(
        command="check_tasks",
        summary="Check task folders, their solutions, and nothing.",
        example="gym dataset validate tasks --no-run",
        arguments="FOLDER",
        translate=names_as("folder"),
        flags=(
            Flag("--no-run", None, "Only load and lint; start no sandbox."),
            Flag("--select", "RULE", "A rule of the linter; repeatable.", form="texts", write=first_or_list),
            JSON,
        ),
    ),
    "pull": Verb(
        command="pull_tasks",
        summary="Fetch task folders from a folder, an archive or a URL.",
        example="gym dataset pull https://example.org/tasks.tar.gz -o tasks",
        arguments="SOURCE",
        translate=names_as("source"),
        flags=(
            Flag("--output -o", "DIR", "The new folder.", key="folder"),
            Flag("--sha256", "DIGEST", "Digest that the archive must have."),
        ),
    ),
}
PREFETCH = Verb(
    command="prefetch",
    summary="Install what runs need, so that they need no network.",
    example="gym env prefetch textarena:Mastermind-v0",
    arguments="[FOLDER|KIND:NAME...]",
    translate=translate_prefetch,
    flags=(
        Flag("--packages", "NAME", "Package of Debian; repeatable.", form="texts", write=first_or_list),
        Flag("--rows", "FILE", "Write the tasks of named environments (JSONL)."),
        Flag("--tasks", "N", "Tasks of each environment that are written.", form="number"),
    ),
)
