"""The groups and verbs of `gym`, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nemo_gym.cli.short.control import CONTROL
from nemo_gym.cli.short.flags import (
    ADD_TASKS,
    CONCURRENCY,
    DISCOVERY_NAME,
    HEAD,
    INPUT,
    JSON,
    LIMIT,
    MARK_NEW_CODE,
    MARK_NEW_ENGINE,
    MODEL,
    OPENENV,
    OUTPUT,
    OVERWRITE,
    RESUME,
    SAMPLING,
    SEARCH_DIR,
    SELECTION,
    TAG,
    UNTIL,
    Flag,
    comma_separated,
    first_or_list,
)
from nemo_gym.cli.short.folder_verbs import PREFETCH, TASK_FOLDERS
from nemo_gym.cli.short.forks import FORKS
from nemo_gym.cli.short.stored_runs import translate_profile, translate_reverify
from nemo_gym.cli.short.studies import AUDIT, STUDIES
from nemo_gym.cli.short.translation import (
    names_as,
    translate_eval,
    translate_hub_dataset,
    translate_inspection,
    translate_list,
    translate_prepare,
    translate_scale,
    translate_search,
    translate_start,
)
from nemo_gym.cli.short.verb import Verb

AGENT_NAME = Flag("--agent -a", "NAME", "Agent of rows that name none.", key="agent_name")
DOMAIN = Flag("--domain", "NAME", "Only environments of this domain.")
PROMPT = Flag("--prompt-config", "FILE", "Prompt template of the rows.")

REPOSITORY = Flag("--repo-id", "OWNER/NAME", "Repository on the hub.")
ARTIFACT = Flag("--artifact", "FILE", "File in the repository.", key="artifact_fpath")
STORAGE = Flag("--storage", "hf", "Where it is: the Hugging Face hub.", key="")
SERVER = Flag("--resources-server", "NAME", "A resources server.", key="", form="texts")
EXPORT_FORMATS = (
    "sft, dpo, kto, grpo, nemo_rl, verl, agent_tunix, prime_rl, sharegpt, openai, openenv, atif or inspect."
)

DATASET = {
    **TASK_FOLDERS,
    "upload": Verb(
        command="upload_dataset_to_hf",
        summary="Upload a dataset to the Hugging Face hub.",
        example="gym dataset upload -i data/train.jsonl --repo-id me/my-tasks",
        translate=translate_hub_dataset,
        flags=(
            INPUT,
            REPOSITORY,
            ARTIFACT,
            Flag("--private", None, "Make a new repository private."),
            STORAGE,
        ),
    ),
    "download": Verb(
        command="download_dataset_from_hf",
        summary="Download a dataset from the Hugging Face hub.",
        example="gym dataset download --repo-id me/my-tasks -o data/train.jsonl",
        translate=translate_hub_dataset,
        flags=(
            REPOSITORY,
            ARTIFACT,
            Flag("--revision", "NAME", "Branch, tag or commit."),
            Flag("--output -o", "FILE", "File to write.", key="output_fpath"),
            STORAGE,
        ),
    ),
    "render": Verb(
        command="materialize_prompts",
        summary="Fill a prompt template with the rows of a dataset.",
        example="gym dataset render -i questions.jsonl --prompt-config cot.yaml -o tasks.jsonl",
        flags=(INPUT, PROMPT, OUTPUT, SEARCH_DIR),
    ),
    "convert": Verb(
        command="convert_data",
        summary="Make task rows of conversations, or questions with answers.",
        example="gym dataset convert chat.json -o tasks.jsonl",
        arguments="FILE",
        translate=names_as("input_jsonl_fpath"),
        flags=(OUTPUT,),
    ),
    "collate": Verb(
        command="prepare_data",
        summary="Check, count and merge the datasets of a configuration.",
        example="gym dataset collate mcqa --mode example_validation --output-dir data",
        arguments="[NAME]...",
        translate=translate_inspection,
        flags=(
            *SELECTION,
            Flag("--mode", "NAME", "example_validation or train_preparation; by default all datasets."),
            Flag("--output-dir", "DIR", "Folder to write.", key="output_dirpath"),
            Flag("--download", None, "Download missing files.", key="should_download"),
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
        translate=translate_prepare,
        flags=(
            *SELECTION[1:2],
            *SELECTION[3:4],
            SEARCH_DIR,
            Flag("--split", "TYPE", "Type of the datasets to prepare."),
            Flag("--overwrite", None, "Also datasets that exist."),
        ),
    ),
    "run": Verb(
        command="e2e_collect_rollouts",
        summary="Start the servers, collect rollouts, stop the servers.",
        example="gym eval run mcqa --url http://localhost:8000/v1 --model Qwen3-8B -n 4",
        arguments="[NAME]",
        translate=translate_eval,
        flags=(
            *SELECTION,
            *MODEL,
            Flag("--no-serve", None, "Use the servers of the gym that runs in this folder.", key=""),
            HEAD,
            DISCOVERY_NAME,
            Flag(
                "--use-running-code",
                None,
                "With --no-serve: its files may have been edited since it started.",
                key="",
            ),
            AGENT_NAME,
            replace(INPUT, help="Task rows (JSONL); repeatable; by default the environment's own."),
            replace(OUTPUT, help="File for the results (JSONL); by default results/NAME.jsonl."),
            Flag("--num-repeats -n", "N", "Rollouts of each task; by default 1.", form="number"),
            *UNTIL,
            LIMIT,
            CONCURRENCY,
            Flag("--durability", "WORD", "process or node: interrupted attempts go on at their next call."),
            RESUME,
            ADD_TASKS,
            MARK_NEW_CODE,
            MARK_NEW_ENGINE,
            OVERWRITE,
            Flag("--dry-run", None, "Tell what it will cost, from earlier rows, and start nothing."),
            TAG,
            Flag("--split", "TYPE", "Type of the datasets to use."),
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
                "--input-glob -i",
                "PATTERN",
                "Shards, as patterns separated by commas.",
                key="input_jsonl_fpath",
                write=comma_separated,
            ),
            OUTPUT,
            JSON,
        ),
    ),
    "reverify": Verb(
        command="reverify",
        summary="Score stored rollouts again.",
        example="gym eval reverify out.jsonl -o again.jsonl",
        arguments="[FILE] [NAME]...",
        translate=translate_reverify,
        flags=(
            *SELECTION,
            *MODEL,
            Flag("--rollouts", "FILE", "Scored rows.", key="input_jsonl_fpath"),
            Flag("--input-format", "FORMAT", "`atif`, `verifiers` or `inspect`, in the place of rows."),
            Flag("--task-rows", "FILE", "The dataset of such trajectories' tasks."),
            OUTPUT,
            CONCURRENCY,
            RESUME,
            MARK_NEW_CODE,
            MARK_NEW_ENGINE,
            OVERWRITE,
            Flag("--judge-failed-only", None, "Only rollouts whose judge failed."),
            Flag("--force", None, "Also environments that need a session."),
            JSON,
        ),
    ),
    "profile": Verb(
        command="reward_profile",
        summary="Write the pass rate of each task of a run.",
        example="gym eval profile out.jsonl",
        arguments="FILE",
        translate=translate_profile,
        flags=(
            Flag("--rollouts", "FILE", "Scored rows.", key="input_jsonl_fpath"),
            OUTPUT,
            JSON,
        ),
    ),
    "compare": Verb(
        command="compare",
        summary="Compare runs of the same tasks, by environment.",
        example="gym eval compare before.jsonl after.jsonl --fail-below -0.02",
        arguments="BEFORE AFTER...",
        translate=names_as("runs"),
        flags=(
            Flag("--fail-below", "X", "Exit with 1 if the mean score changed by less than X."),
            Flag("--score", "KEY", "Number of a row to compare."),
            Flag("--markdown", None, "Print Markdown."),
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
                "--skip", "RULE", "A rule that is not checked; repeatable.", form="texts", write=first_or_list
            ),
            Flag("--strict", None, "Exit with 1 for signs too."),
            Flag("--markdown", None, "Print Markdown."),
            JSON,
        ),
    ),
    "report": Verb(
        command="report",
        summary="Write runs with their comparisons as one HTML file.",
        example="gym eval report results -o report.html",
        arguments="FILE...",
        translate=names_as("input_jsonl_fpath"),
        flags=(Flag("--output -o", "FILE", "File to write (HTML).", key="output_html_fpath"),),
    ),
    **STUDIES,
    "failures": Verb(
        command="failures",
        summary="Show the failures of a run by cause.",
        example="gym eval failures results/mcqa.jsonl",
        arguments="FILE",
        translate=names_as("input_jsonl_fpath"),
        flags=(JSON,),
    ),
    "export": Verb(
        command="export",
        summary="Convert scored rollouts to the format of a trainer.",
        example="gym eval export --format sft out.jsonl -o sft.jsonl",
        arguments="FILE...",
        translate=names_as("input"),
        flags=(
            Flag("--format", "NAME", EXPORT_FORMATS),
            Flag("--rollouts", "FILE", "Scored rows.", key="input"),
            Flag("--output -o", "FILE", "File to write."),
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
        flags=(Flag("--resources-server", "NAME", "Its name.", key="", form="texts"),),
    ),
    "resolve": Verb(
        command="dump_config",
        summary="Print the effective configuration without secrets.",
        example="gym env resolve mcqa --explain",
        arguments="[NAME]...",
        translate=translate_inspection,
        flags=(
            *SELECTION,
            *MODEL,
            Flag("--explain", None, "Print the origin of every value."),
            JSON,
        ),
    ),
    "validate": Verb(
        command="validate",
        summary="Check a configuration without starting anything.",
        example="gym env validate mcqa",
        arguments="[NAME]...",
        translate=translate_inspection,
        flags=(*SELECTION, *MODEL, JSON),
    ),
    "test": Verb(
        command="test",
        summary="Run tests of servers, and play the gold of environments.",
        example="gym env test my_environment",
        arguments="NAME...",
        translate=names_as("entrypoint", "resources_servers/{}"),
        flags=(SERVER, SEARCH_DIR),
    ),
    "prefetch": PREFETCH,
    "schema": Verb(
        command="schema",
        summary="Print the JSON Schema of an environment's or the gym's rows.",
        example="gym env schema mcqa",
        arguments="[NAME]",
        translate=names_as("entrypoint", "resources_servers/{}"),
        flags=(SERVER, Flag("--row", "FORM", "task, scored or failure: the gym's rows."), SEARCH_DIR),
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
        translate=translate_start,
        flags=(*SELECTION, *MODEL, DISCOVERY_NAME, OPENENV, JSON),
    ),
    "status": Verb(
        command="status",
        summary="Show the running gyms and their servers.",
        example="gym env status",
        flags=(JSON,),
    ),
    "scale": Verb(
        command="scale",
        summary="Add and remove replicas of servers while a gym runs.",
        example="gym env scale my_environment=8",
        arguments="NAME=REPLICAS...",
        translate=translate_scale,
        flags=(
            Flag(
                "--drain-timeout",
                "S",
                "Seconds for removed replicas to finish their sessions; by default 1800.",
                key="drain_timeout_s",
                form="value",
            ),
            HEAD,
            DISCOVERY_NAME,
            JSON,
        ),
    ),
}
GROUPS: Mapping[str, tuple[str, Mapping[str, Verb]]] = {
    "ctl": ("Control a run: pause, resume, drain, cancel, requeue, set.", CONTROL),
    "dataset": ("Move, render and check datasets.", DATASET),
    "env": ("Create, check, test and start environments.", ENV),
    "eval": ("Run evaluations and work on their results.", EVAL),
}
"""The summary and the verbs of each group."""
TOP: Mapping[str, Verb] = {
    "audit": AUDIT,
    "view": Verb(
        command="view",
        summary="Show rollouts in a browser.",
        example="gym view results",
        arguments="[FILE|DIR]...",
        translate=names_as("places"),
        flags=(
            Flag("--tokenizer", "DIR", "Model's folder, for the text of tokens."),
            Flag("--port", "N", "Port; by default any free one.", form="number"),
            Flag("--export", "FILE", "Write one HTML file instead of serving."),
            Flag("--filter", "TEXT", "With --export: the rows to write, such as `reward<1`."),
            Flag("--limit", "N", "With --export: at most N rollouts of a run.", form="number"),
            JSON,
        ),
    ),
    **FORKS,
    "list": Verb(
        command="list",
        summary="List environments, benchmarks, agents and models.",
        example="gym list benchmarks",
        arguments="[KIND] [NAME]",
        translate=translate_list,
        flags=(DOMAIN, SEARCH_DIR, JSON),
    ),
    "search": Verb(
        command="list",
        summary="Find environments, benchmarks, agents and models by words.",
        example="gym search math judge",
        arguments="WORD...",
        translate=translate_search,
        flags=(DOMAIN, SEARCH_DIR, JSON),
    ),
    "doctor": Verb(
        command="doctor",
        summary="Show what this machine has for a gym, and what to do.",
        example="gym doctor --url http://localhost:8000/v1",
        flags=(*MODEL[1:], JSON),
    ),
    "mock-engine": Verb(
        command="mock_engine",
        summary="Serve a scripted model, for tests without a GPU.",
        example="gym mock-engine --port 8000 --gold mcqa --accuracy 0.7",
        flags=(
            Flag("--port", "N", "Port; by default any free one.", form="number"),
            Flag("--model", "NAME", "Name of the model."),
            Flag("--policy", "NAME", "Replies: echo, tools, answer or script."),
            Flag("--gold", "NAME", "Environment whose example tasks are solved."),
            Flag("--accuracy", "SHARE", "Share of turns with a right reply.", form="decimal"),
            Flag(
                "--latency",
                "SECONDS",
                "Before an answer, such as uniform:1:3.",
                key="latency_s",
                form="value",
            ),
            JSON,
        ),
    ),
    "completion": Verb(
        command="completion",
        summary="Print the script that completes lines in bash, zsh or fish.",
        example="gym completion bash",
        arguments="SHELL",
        translate=names_as("shell"),
    ),
}
"""The verbs without a group."""
