"""The verbs that audit verifiers, plan evaluations and study many runs, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nemo_gym.cli.short.flags import CONCURRENCY, INPUT, JSON, LIMIT, MODEL, RESUME, SELECTION, Flag
from nemo_gym.cli.short.translation import names_as, translate_audit
from nemo_gym.cli.short.verb import Verb

AUDIT = Verb(
    command="audit",
    summary="Measure how often a verifier is wrong.",
    example="gym audit tool_tasks --seed 7",
    arguments="[NAME|DIR|FILE]...",
    translate=translate_audit,
    flags=(
        *SELECTION,
        *MODEL,
        replace(INPUT, help="Task rows (JSONL); by default the environment's own."),
        Flag(
            "--output-dir -o", "DIR", "Folder for the card; by default results/audit.", key="output_dirpath"
        ),
        LIMIT,
        Flag("--seed", "N", "Seed of the probes; by default 0.", form="number"),
        Flag("--dry-run", None, "Count the probes, and send none."),
        Flag("--max-probes", "N", "At most about N probes.", form="number"),
        Flag("--adversary", None, "Also let scripts and the model try to cheat."),
        replace(CONCURRENCY, help="Tasks probed at once; by default 16."),
        RESUME,
        Flag(
            "--fail-above", "X", "Exit with 1 if a class of probes has a higher error rate.", form="decimal"
        ),
        Flag("--baseline", "FILE", "Card of an earlier audit: exit with 1 if a class became worse."),
        Flag("--label", "KEY", "With a run's rows: the member that is true for a right answer."),
        JSON,
    ),
)
STUDIES: Mapping[str, Verb] = {
    "plan": Verb(
        command="plan",
        summary="Tell what a run can show, and what a difference costs.",
        example="gym eval plan results/mcqa.jsonl -n 4 --difference 0.02",
        arguments="[FILE]",
        translate=names_as("run"),
        flags=(
            Flag("--tasks", "N", "Number of tasks; by default that of FILE.", form="number"),
            Flag("--num-repeats -n", "N", "Rollouts of each task.", key="repeats", form="number"),
            Flag("--rate", "P", "Without FILE: mean reward to assume; by default 0.5.", form="decimal"),
            Flag("--difference", "D", "Difference of two models to find.", form="decimal"),
            Flag("--width", "W", "Half-width of the mean's interval.", form="decimal"),
            Flag("--power", "P", "Probability of finding it; by default 0.8.", form="decimal"),
            Flag("--against", "FILE", "Run of another model, for the spread of differences."),
            Flag("--generalize", None, "The mean of all tasks like these."),
            JSON,
        ),
    ),
    "rank": Verb(
        command="rank",
        summary="Rank models by their runs.",
        example="gym eval rank results/small.jsonl results/large.jsonl --plot ranks.svg",
        arguments="FILE...",
        translate=names_as("runs"),
        flags=(
            Flag("--baseline", "FILE", "Run of which regressions are named."),
            Flag("--adjust", "NAME", "holm, bonferroni, benjamini-hochberg or none."),
            Flag("--plot", "FILE", "File for the plot (SVG)."),
            Flag("--score", "KEY", "Number of a row to compare."),
            Flag("--markdown", None, "Print Markdown, for a model card."),
            JSON,
        ),
    ),
    "tasks": Verb(
        command="tasks",
        summary="Show which tasks tell models apart.",
        example="gym eval tasks results/small.jsonl results/large.jsonl",
        arguments="FILE...",
        translate=names_as("runs"),
        flags=(
            Flag(
                "--output -o", "FILE", "File for the figures of each task (JSONL).", key="output_jsonl_fpath"
            ),
            Flag("--score", "KEY", "Number of a row to compare."),
            JSON,
        ),
    ),
}
