"""The verbs that go on from recorded attempts, as data."""

from __future__ import annotations

from collections.abc import Mapping

from nemo_gym.cli.short.flags import (
    CONCURRENCY,
    DISCOVERY_NAME,
    HEAD,
    JSON,
    OUTPUT,
    OVERWRITE,
    RESUME,
    Flag,
    spell_list,
)
from nemo_gym.cli.short.translation import names_as, translate_rewind
from nemo_gym.cli.short.verb import Verb

TURN = Flag("--turn", "K", "Model calls to share; -1 leaves out the last.", form="number")
_FORKED = (
    Flag("--task", "N", "Only this task.", form="number"),
    Flag("--repeat", "N", "Only this repeat.", form="number"),
    Flag("--dry-run", None, "Print the calls and tokens that it takes."),
    Flag(
        "--noise",
        "CLASS",
        "Text that may differ; repeatable.",
        key="replay_noise",
        form="texts",
        write=spell_list,
    ),
    OUTPUT,
    CONCURRENCY,
    RESUME,
    OVERWRITE,
    HEAD,
    DISCOVERY_NAME,
    JSON,
)
FORKS: Mapping[str, Verb] = {
    "fork": Verb(
        command="fork",
        summary="Fork recorded rollouts after a turn.",
        example="gym fork results/rollouts.jsonl --turn 3 -n 8",
        arguments="FILE",
        translate=names_as("input_jsonl_fpath"),
        flags=(
            TURN,
            Flag("--num-forks -n", "N", "Forks of each rollout; by default 1.", form="number"),
            *_FORKED,
        ),
    ),
    "rewind": Verb(
        command="fork",
        summary="Attempt the rest of recorded rollouts again.",
        example="gym rewind results/rollouts.jsonl --turn -2",
        arguments="FILE",
        translate=translate_rewind,
        flags=(TURN, *_FORKED),
    ),
    "forget": Verb(
        command="forget",
        summary="Delete the records of attempts that a run has kept.",
        example="gym forget results/rollouts.jsonl",
        arguments="FILE",
        translate=names_as("input_jsonl_fpath"),
        flags=(JSON,),
    ),
}
