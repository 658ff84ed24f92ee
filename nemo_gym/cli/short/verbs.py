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
    first_or_list,
)
from nemo_gym.cli.short.translation import (
    Translation,
    configured,
    evaluated,
    inspected,
    listed,
    names_as,
    plain,
    prepared,
    rendered,
    searched,
    stored_on_hub,
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

REPOSITORY = Flag(names=("--repo-id",), key="repo_id", metavar="OWNER/NAME", help="Repository on the hub.")
ARTIFACT = Flag(names=("--artifact",), key="artifact_fpath", metavar="FILE", help="File in the repository.")
STORAGE = Flag(names=("--storage",), metavar="hf", help="Where it is: the Hugging Face hub.")
SERVER = Flag(names=("--resources-server",), form="texts", metavar="NAME", help="A resources server.")

DATASET = {
    "upload": Verb(
        command="upload_dataset_to_hf",
        summary="Upload a dataset to the Hugging Face hub.",
        example="gym dataset upload -i data/train.jsonl --repo-id me/my-tasks",
        translate=stored_on_hub,
        flags=(
            INPUT,
            REPOSITORY,
            ARTIFACT,
            Flag(names=("--private",), key="private", form="switch", help="Make a new repository private."),
            STORAGE,
        ),
    ),
    "download": Verb(
        command="download_dataset_from_hf",
        summary="Download a dataset from the Hugging Face hub.",
        example="gym dataset download --repo-id me/my-tasks -o data/train.jsonl",
        translate=stored_on_hub,
        flags=(
            REPOSITORY,
            ARTIFACT,
            Flag(names=("--revision",), key="revision", metavar="NAME", help="Branch, tag or commit."),
            Flag(names=("--output", "-o"), key="output_fpath", metavar="FILE", help="File to write."),
            STORAGE,
        ),
    ),
    "render": Verb(
        command="materialize_prompts",
        summary="Fill a prompt template with the rows of a dataset.",
        example="gym dataset render -i questions.jsonl --prompt-config cot.yaml -o tasks.jsonl",
        translate=rendered,
        flags=(INPUT, PROMPT, OUTPUT, SEARCH_DIR),
    ),
    "collate": Verb(
        command="prepare_data",
        summary="Check, count and merge the datasets of a configuration.",
        example="gym dataset collate mcqa --mode example_validation --output-dir data",
        arguments="[NAME]...",
        translate=inspected,
        flags=(
            *SELECTION,
            Flag(
                names=("--mode",),
                key="mode",
                metavar="NAME",
                help="example_validation or train_preparation; by default all datasets.",
            ),
            Flag(names=("--output-dir",), key="output_dirpath", metavar="DIR", help="Folder to write."),
            Flag(names=("--download",), key="should_download", form="switch", help="Download missing files."),
            JSON,
        ),
    ),
}
EVAL = {
    "prepare": Verb(
        command="prepare_benchmark",
        summary="Prepare the datasets of benchmarks by their scripts.",
        example="gym eval prepare --benchmark gpqa",
        arguments="[NAME]...",
        translate=prepared,
        flags=(
            *SELECTION[1:2],
            *SELECTION[3:4],
            SEARCH_DIR,
            Flag(names=("--split",), key="split", metavar="TYPE", help="Type of the datasets to prepare."),
            Flag(names=("--overwrite",), key="overwrite", form="switch", help="Also datasets that exist."),
        ),
    ),
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
    "health-check": Verb(
        command="health_check",
        summary="Find signs of broken data and of reward hacking.",
        example="gym eval health-check results/rollouts.jsonl",
        arguments="FILE",
        translate=names_as("input_jsonl_fpath"),
        flags=(
            Flag(
                names=("--skip",),
                key="skip",
                form="texts",
                metavar="RULE",
                write=first_or_list,
                help="A rule that is not checked; repeatable.",
            ),
            Flag(names=("--strict",), key="strict", form="switch", help="Exit with 1 for signs too."),
            Flag(names=("--markdown",), key="markdown", form="switch", help="Print Markdown."),
            JSON,
        ),
    ),
    "report": Verb(
        command="report",
        summary="Write a run as one HTML file.",
        example="gym eval report results/rollouts.jsonl -o report.html",
        arguments="FILE",
        translate=names_as("input_jsonl_fpath"),
        flags=(
            Flag(
                names=("--output", "-o"),
                key="output_html_fpath",
                metavar="FILE",
                help="File to write (HTML).",
            ),
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
        flags=(SERVER, SEARCH_DIR),
    ),
    "schema": Verb(
        command="schema",
        summary="Print the JSON Schema of an environment's task rows.",
        example="gym env schema mcqa",
        arguments="NAME",
        translate=names_as("entrypoint", "resources_servers/{}"),
        flags=(SERVER, SEARCH_DIR),
    ),
    "packages": Verb(
        command="pip_list",
        summary="List the packages with which a server runs.",
        example="gym env packages mcqa",
        arguments="NAME",
        translate=names_as("entrypoint", "resources_servers/{}"),
        flags=(SERVER, SEARCH_DIR, JSON),
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
    "dataset": ("Move, render and check datasets.", DATASET),
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
