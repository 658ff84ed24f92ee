"""The groups and verbs of `gym`, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemo_gym.cli.short.flags import (
    CONCURRENCY,
    INPUT,
    JSON,
    LIMIT,
    MODEL,
    OUTPUT,
    OVERWRITE,
    RESUME,
    SAMPLING,
    SEARCH_DIR,
    SELECTION,
    Flag,
    comma_separated,
)
from nemo_gym.cli.short.translation import (
    Translation,
    configured,
    evaluated,
    inspected,
    listed,
    names_as,
    plain,
    searched,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb: a command with short flags."""

    command: str
    """The module of the command in `nemo_gym.cli`."""
    summary: str
    example: str
    flags: tuple[Flag, ...] = ()
    arguments: str = ""
    """The positional arguments in the usage line."""
    translate: Translation = plain


AGENT_NAME = Flag(
    names=("--agent", "-a"), key="agent_name", metavar="NAME", help="Agent of rows that name none."
)
DOMAIN = Flag(names=("--domain",), key="domain", metavar="NAME", help="Only environments of this domain.")
PROMPT = Flag(
    names=("--prompt-config",), key="prompt_config", metavar="FILE", help="Prompt template of the rows."
)

EVAL = {
    "run": Verb(
        command="e2e_collect_rollouts",
        summary="Start the servers, collect rollouts, stop the servers.",
        example="gym eval run mcqa --url http://localhost:8000/v1 --model Qwen3-8B -n 4",
        arguments="[NAME]",
        translate=evaluated,
        flags=(
            *SELECTION,
            *MODEL,
            Flag(names=("--no-serve",), form="switch", help="Use the servers of a running gym."),
            AGENT_NAME,
            INPUT,
            OUTPUT,
            Flag(
                names=("--num-repeats", "-n"),
                key="num_repeats",
                form="number",
                metavar="N",
                help="Rollouts of each task.",
            ),
            LIMIT,
            CONCURRENCY,
            RESUME,
            OVERWRITE,
            Flag(names=("--split",), key="split", metavar="TYPE", help="Type of the datasets to use."),
            PROMPT,
            *SAMPLING,
            JSON,
        ),
    ),
    "aggregate": Verb(
        command="aggregate_rollouts",
        summary="Merge the shards of a run.",
        example="gym eval aggregate 'results/shard_*.jsonl' -o results/all.jsonl",
        arguments="FILE...",
        translate=names_as("input_jsonl_fpath"),
        flags=(
            Flag(
                names=("--input-glob", "-i"),
                key="input_jsonl_fpath",
                metavar="PATTERN",
                write=comma_separated,
                help="Shards, as patterns separated by commas.",
            ),
            OUTPUT,
            JSON,
        ),
    ),
    "reverify": Verb(
        command="reverify",
        summary="Score stored rollouts again.",
        example="gym eval reverify mcqa --rollouts out.jsonl -o again.jsonl",
        arguments="[NAME]",
        translate=configured,
        flags=(
            *SELECTION,
            *MODEL,
            Flag(names=("--rollouts",), key="input_jsonl_fpath", metavar="FILE", help="Scored rows."),
            OUTPUT,
            CONCURRENCY,
            RESUME,
            OVERWRITE,
            Flag(
                names=("--judge-failed-only",),
                key="judge_failed_only",
                form="switch",
                help="Only rollouts whose judge failed.",
            ),
            Flag(
                names=("--force",), key="force", form="switch", help="Also environments that need a session."
            ),
            JSON,
        ),
    ),
    "profile": Verb(
        command="reward_profile",
        summary="Write the pass rate of each task of a run.",
        example="gym eval profile --rollouts out.jsonl -o profile.jsonl",
        flags=(
            Flag(names=("--rollouts",), key="input_jsonl_fpath", metavar="FILE", help="Scored rows."),
            OUTPUT,
            JSON,
        ),
    ),
    "compare": Verb(
        command="compare",
        summary="Compare two runs of the same tasks.",
        example="gym eval compare before.jsonl after.jsonl --fail-below -0.02",
        arguments="BEFORE AFTER",
        translate=names_as("runs"),
        flags=(
            Flag(
                names=("--fail-below",),
                key="fail_below",
                metavar="X",
                help="Exit with 1 if the mean score changed by less than X.",
            ),
            Flag(names=("--score",), key="score", metavar="KEY", help="Number of a row to compare."),
            Flag(names=("--markdown",), key="markdown", form="switch", help="Print Markdown."),
            JSON,
        ),
    ),
    "export": Verb(
        command="export",
        summary="Convert scored rollouts to the format of a trainer.",
        example="gym eval export --format sft --rollouts out.jsonl -o sft.jsonl",
        flags=(
            Flag(names=("--format",), key="format", metavar="NAME", help="sft, dpo, grpo and others."),
            Flag(names=("--rollouts",), key="input", metavar="FILE", help="Scored rows."),
            Flag(names=("--output", "-o"), key="output", metavar="FILE", help="File to write."),
            JSON,
        ),
    ),
}
ENV = {
    "init": Verb(
        command="init_resources_server",
        summary="Create a working environment to start from.",
        example="gym env init my_environment",
        arguments="NAME",
        translate=names_as("entrypoint", "resources_servers/{}"),
        flags=(Flag(names=("--resources-server",), form="texts", metavar="NAME", help="Its name."),),
    ),
    "resolve": Verb(
        command="dump_config",
        summary="Print the effective configuration without secrets.",
        example="gym env resolve mcqa --explain",
        arguments="[NAME]...",
        translate=inspected,
        flags=(
            *SELECTION,
            *MODEL,
            Flag(names=("--explain",), key="explain", form="switch", help="Print the origin of every value."),
            JSON,
        ),
    ),
    "validate": Verb(
        command="validate",
        summary="Check a configuration without starting anything.",
        example="gym env validate mcqa",
        arguments="[NAME]...",
        translate=inspected,
        flags=(*SELECTION, *MODEL, JSON),
    ),
    "test": Verb(
        command="test",
        summary="Run the tests of environments, agents and models.",
        example="gym env test mcqa",
        arguments="[NAME]...",
        translate=names_as("entrypoint", "resources_servers/{}"),
        flags=(
            Flag(names=("--resources-server",), form="texts", metavar="NAME", help="A resources server."),
            SEARCH_DIR,
        ),
    ),
    "start": Verb(
        command="run",
        summary="Start the servers and keep them running.",
        example="gym env start math_with_judge --url http://localhost:8000/v1 -m Qwen3-8B",
        arguments="[NAME]...",
        translate=configured,
        flags=(*SELECTION, *MODEL, JSON),
    ),
    "status": Verb(
        command="status",
        summary="Show the running gyms and their servers.",
        example="gym env status",
        flags=(JSON,),
    ),
}
GROUPS: Mapping[str, tuple[str, Mapping[str, Verb]]] = {
    "env": ("Create, check, test and start environments.", ENV),
    "eval": ("Run evaluations and work on their results.", EVAL),
}
"""The summary and the verbs of each group."""
TOP: Mapping[str, Verb] = {
    "list": Verb(
        command="list",
        summary="List environments, benchmarks, agents and models.",
        example="gym list benchmarks",
        arguments="[KIND] [NAME]",
        translate=listed,
        flags=(DOMAIN, SEARCH_DIR, JSON),
    ),
    "search": Verb(
        command="list",
        summary="Find environments, benchmarks, agents and models by words.",
        example="gym search math judge",
        arguments="WORD...",
        translate=searched,
        flags=(DOMAIN, SEARCH_DIR, JSON),
    ),
}
"""The verbs without a group."""
