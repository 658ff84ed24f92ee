"""The keys of a row are spelled in few places: `nemo_gym/rows/` names them, and its functions read them for others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from nemo_gym.names import RESERVED_PREFIX
from nemo_gym.rows import keys
from tests.house_counts import ROOT, SERVERS, list_sources, parse_file

NAMES = {name: value for name, value in vars(keys).items() if name.endswith(("_KEY", "_PREFIX"))}
"""The constants of the keys."""
KEYS = frozenset(NAMES.values())
MOST_FILES = 46
OTHER_OBJECTS = {
    "nemo_gym/agents/agent.py": "a parameter of `responses`",
    "nemo_gym/cli/compare.py": "a column of a comparison",
    "nemo_gym/datasets/hub.py": "an attribute of an HTTP error",
    "nemo_gym/engines/gateway/reading.py": "a record of a call, the type of a Responses object",
    "nemo_gym/ecosystem/model_calls.py": "a record of a call",
    "nemo_gym/engines/record/call.py": "a record of a call",
    "nemo_gym/engines/record/index.py": "a record of a call",
    "nemo_gym/episodes/single_agent_turn.py": "a member of an environment server's failure",
    "nemo_gym/export/grpo.py": "a column of an export",
    "nemo_gym/export/openenv.py": "a member of an export",
    "nemo_gym/export/prime_rl.py": "a column of an export",
    "nemo_gym/export/report.py": "names of reasons",
    "nemo_gym/mock_engine/_responses.py": "the type of a Responses object",
    "nemo_gym/resources/judge_failsafe.py": "an attribute of a request",
    "nemo_gym/resources/mcp.py": "a path in the body of a request",
    "nemo_gym/responses/_responses_stream.py": "a member of a stream event",
    "nemo_gym/responses/responses_answer.py": "the type of a Responses object",
    "nemo_gym/responses/schemas.py": "the type of a Responses object",
    "nemo_gym/viewer/unfinished.py": "a column of the index",
    "nemo_gym/rollouts/run/closing.py": "a column of the closing table",
    "nemo_gym/rollouts/tracking/tracker.py": "a column of a tracker",
    "nemo_gym/evaluation/evaluation.py": "a column of a table",
    "nemo_gym/rollouts/lookback/trajectories.py": "a member of a trial's result",
    "nemo_gym/sources/atif/reading.py": "a member of a trajectory",
    "nemo_gym/sources/atif/writing.py": "a member of a trajectory",
    "nemo_gym/sources/foreign/blocks.py": "an option of an agent",
    "nemo_gym/sources/foreign/environment.py": "a member of a step",
    "nemo_gym/sources/foreign/process.py": "a member of a message",
    "nemo_gym/sources/foreign/host/kinds/aviary.py": "a member of a message",
    "nemo_gym/sources/inspect_logs/reading.py": "a member of a trajectory",
    "nemo_gym/sources/inspect_logs/writing.py": "the name of a score",
    "nemo_gym/sources/foreign/host/kinds/openenv.py": "a member of a message",
    "nemo_gym/sources/foreign/host/kinds/ors.py": "a member of a message",
    "nemo_gym/sources/foreign/host/kinds/textarena.py": "a member of a message",
    "nemo_gym/sources/foreign/host/kinds/verifiers.py": "a member of a message",
    "nemo_gym/sources/openenv/messages.py": "a member of a message",
    "nemo_gym/sources/reading.py": "the type of a Responses object",
    "nemo_gym/sources/verifiers_traces.py": "a member of a trace",
    "nemo_gym/sources/task_folders/rewards.py": "a name in the file of a verifier",
    "nemo_gym/sources/task_folders/trial.py": "a parameter of a verifier's program",
    "nemo_gym/sources/task_folders/verifier_shim.py": "a parameter of a verifier's program",
    "resources_servers/code_gen/selftest.py": "the type of a Responses object",
    "responses_api_agents/external_agent/record.py": "a record of a rollout's calls",
    "nemo_gym/viewer/audit_pages.py": "a member of a probe",
    "responses_api_agents/gymnasium_agent/environment.py": "a member of a step",
    "responses_api_models/litellm_model/app.py": "the type of a Responses object",
}
"""Files in which these words are no keys of rows."""
WORDS = frozenset({"response", "reward", "tamperable", "failure_reason", "failure_kind"})


def source_files() -> Iterator[Path]:
    for path in list_sources("nemo_gym", *SERVERS):
        if "template" not in path.relative_to(ROOT).parts:
            yield path


def texts(tree: ast.Module) -> Iterator[str]:
    """Every text in the code, docstrings aside."""
    documented = {
        id(element.value)
        for element in ast.walk(tree)
        if isinstance(element, ast.Expr) and isinstance(element.value, ast.Constant)
    }
    for element in ast.walk(tree):
        if isinstance(element, ast.Constant) and id(element) not in documented:
            if isinstance(element.value, str):
                yield element.value
            elif isinstance(element.value, bytes):
                yield element.value.decode(errors="replace")


def names(tree: ast.Module) -> Iterator[str]:
    for element in ast.walk(tree):
        if isinstance(element, ast.ImportFrom) and element.module == keys.__name__:
            yield from (alias.name for alias in element.names)
        elif (
            isinstance(element, ast.Attribute)
            and isinstance(element.value, ast.Name)
            and element.value.id == "keys"
        ):
            yield element.attr


def find_keys(path: Path) -> set[str]:
    """The keys that a file spells, as text or by a constant."""
    tree = parse_file(path)
    own = {text for text in texts(tree) if text in KEYS}
    if str(path.relative_to(ROOT)) in OTHER_OBJECTS:
        own -= WORDS
    return own | {NAMES[name] for name in names(tree) if name in NAMES}


def test_few_files_spell_a_key() -> None:
    files = {str(path.relative_to(ROOT)): found for path in source_files() if (found := find_keys(path))}
    assert len(files) <= MOST_FILES, "\n".join(f"{path}: {sorted(found)}" for path, found in files.items())


def test_every_exception_is_needed() -> None:
    for path in OTHER_OBJECTS:
        assert WORDS & set(texts(parse_file(ROOT / path))), path


def test_reserved_names_have_a_home() -> None:
    """Those of rows are in `rows/keys.py`, all others in `names.py`, or with the files that they mark."""
    homes = {ROOT / "nemo_gym" / name for name in ("rows/keys.py", "names.py", "discovery_files.py")}
    found = {
        str(path.relative_to(ROOT)): [text for text in spelled if text.startswith(RESERVED_PREFIX)]
        for path in source_files()
        if path not in homes and (spelled := list(texts(parse_file(path))))
    }
    assert {path: reserved for path, reserved in found.items() if reserved} == {}


def test_every_key_is_described() -> None:
    from nemo_gym.rows.fields import FIELDS

    described = [field.key for field in FIELDS]
    assert len(described) == len(set(described))
    assert set(described) == KEYS - {keys.FAILURE_PREFIX, RESERVED_PREFIX} | {keys.FAILURE_KEY}
