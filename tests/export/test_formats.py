"""Every row of every format passes the checks of its reader, on random conversations, drifting tokens and odd rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.export import formats
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.export.formats import NAMES, find_format
from nemo_gym.export.report import LeftOut, Report
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine.drifting import ForgetfulTemplate
from tests.export import consumers
from tests.export.rows import (
    SHARED,
    TOOL,
    call,
    exported,
    failed,
    fork_rows,
    output,
    read_own,
    row,
    text,
    thought,
    token_rows,
)
from tests.tokens.checks import read_as_nemo_rl

ENGINES: dict[str, dict[str, Any]] = {
    "steady": {"token_fields": "packed"},
    "odd_tokens": {"odd_share": 0.4},
    "forgetful": {"template": ForgetfulTemplate()},
}

ODD_ROWS = [
    failed(0, 3),
    row(1, 0, float("nan")),
    row(1, 1, 0.0, [text("cut")], _ng_outcome="truncated"),
    row(2, 0, 1.0, [thought("Hm."), call("Oslo"), output("rain"), text("It rains.")], tools=[TOOL]),
    row(2, 1, 0.0, [call("Oslo", arguments='{"city": Oslo'), output("bad"), text("No.")], tools=[TOOL]),
    row(2, 2, 0.5, [call("Oslo"), output("rain")], tools=[TOOL]),
    row(3, 0, 1.0, [text("red")], prompt=[_image := {"role": "user", "content": [
        {"type": "input_text", "text": "Which colour?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
    ]}]),
    row(3, 1, 0.0, [text("blue")], prompt=[_image]),
    row(4, 0, 1.0, [output("an output without a call"), text("fine")]),
    row(5, 0, 1.0, [text("ok")], tools=[{"type": "web_search"}]),
    row(6, 0, 1.0, [text("two")], prompt=[
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "one?"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "two?"},
    ]),
]  # fmt: skip

Check = Callable[[dict[str, Any]], Any]
CHECKS: dict[str, tuple[str, dict[str, Any], Check]] = {
    "sft": ("sft", {}, consumers.check_trl_sft),
    "sft tokens": ("sft", {"form": "tokens"}, consumers.check_trl_tokens),
    "dpo": ("dpo", {}, consumers.check_trl_dpo),
    "dpo all": ("dpo", {"pairs": "all"}, consumers.check_trl_dpo),
    "dpo matched": ("dpo", {"pairs": "length_matched"}, consumers.check_trl_dpo),
    "kto": ("kto", {"threshold": 2}, consumers.check_trl_kto),
    "nemo_rl": ("nemo_rl", {}, read_as_nemo_rl),
    "verl": ("verl", {}, consumers.check_verl_sft),
    "verl rl": ("verl", {"form": "rl"}, consumers.check_verl_rl),
    "agent_tunix tasks": ("agent_tunix", {"form": "tasks"}, consumers.check_agent_tunix_task),
    "prime_rl": ("prime_rl", {}, consumers.check_prime_rl_sft),
    "prime_rl traces": ("prime_rl", {"form": "traces"}, consumers.check_verifiers_episode),
    "sharegpt": ("sharegpt", {}, consumers.check_llama_factory),
    "openai": ("openai", {}, consumers.check_openai),
    "openenv": ("openenv", {}, consumers.check_openenv_trace),
}


@pytest.fixture(scope="module")
def token_data() -> list[dict[str, Any]]:
    """Rows of three engines, one after the other."""
    rows = []
    for number, (kind, ground) in enumerate(ENGINES.items()):
        for each in asyncio.run(token_rows(6, 4, kind, **ground)):
            rows.append({**each, "_ng_task_index": 100 * (number + 1) + each["_ng_task_index"]})
    return rows


def test_the_help_names_every_format() -> None:
    told = str(ExportSettings.model_fields["format"].description)
    assert told.startswith(f"{', '.join(NAMES[:-1])} or {NAMES[-1]}:")


def test_the_reader_of_every_format_is_checked() -> None:
    # The records of `grpo` are the gym's own, `atif` and `inspect` are no trainer's: files of their own read them.
    own = {"grpo", "atif", "inspect"}
    assert {format for format, _, _ in CHECKS.values()} == set(NAMES) - own


@pytest.mark.parametrize("case", CHECKS)
def test_every_row_passes_the_checks_of_its_reader(
    case: str, tmp_path: Path, token_data: list[dict[str, Any]]
) -> None:
    format, options, check = CHECKS[case]
    name = "out.parquet" if format == "verl" else "out.jsonl"
    rows, report = exported(tmp_path, format, [*token_data, *ODD_ROWS], name=name, options=options)
    assert len(rows) == sum(report.rows.values()) > 5
    assert report.left_out[LeftOut.FAILED] == 1
    assert report.left_out[LeftOut.UNSCORED] == 1
    assert report.losses.keys() <= set(find_format(format).losses), (
        "losses are those that the format declares"
    )
    for each in rows:
        check(each)


NOT_TO_LEARN: list[dict[str, Any]] = [
    {"_ng_masked": True},
    {"mask_sample": True},
    {"_ng_failure_class": "judge_failed"},
    {"_ng_outcome": "failed"},
]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{case: (format, options) for case, (format, options, _) in CHECKS.items()},
    "grpo": ("grpo", {}),
    "agent_tunix": ("agent_tunix", {"num_generations": 4}),
}


def written_with(added: list[dict[str, Any]], case: str, tmp_path: Path) -> tuple[list[Any], Report]:
    """Return the exported rows and report of `added`."""
    format, options = CASES[case]
    name = "out.parquet" if format == "verl" else "out.jsonl"
    return exported(tmp_path, format, added, name=name, options=options)


@pytest.mark.parametrize("case", CASES)
def test_failed_and_masked_rollouts_change_no_row_of_any_format(
    case: str, tmp_path: Path, token_data: list[dict[str, Any]]
) -> None:
    """They are in no row, in no pair and in no mean, even if they have a reward."""
    others = [
        {**each, "_ng_rollout_index": 10 + place, "reward": (99.0, -99.0)[place % 2], **mark}
        for each in token_data
        for place, mark in enumerate(NOT_TO_LEARN)
    ]
    plain, before = written_with(token_data, case, tmp_path)
    among_others, after = written_with([*others, *token_data], case, tmp_path)
    assert among_others == plain
    assert len(plain) > 5
    added = after.left_out - before.left_out
    assert added == {LeftOut.MASKED: 2 * len(token_data), LeftOut.FAILED: 2 * len(token_data)}


EMPTY_ANSWERS = [
    [text("")],
    [text(" \n")],
    [thought("Hm.")],
    [thought("Hm."), text("")],
    [call("Oslo"), output("rain"), text("")],
]
REINFORCEMENT = {
    "grpo",
    "nemo_rl",
    "verl rl",
    "agent_tunix",
    "agent_tunix tasks",
    "prime_rl traces",
    "openenv",
}


@pytest.mark.parametrize("case", sorted(CASES.keys() - REINFORCEMENT))
def test_empty_answers_are_no_examples(case: str, tmp_path: Path) -> None:
    rows = [row(0, n, 1.0, items, tools=[TOOL]) for n, items in enumerate(EMPTY_ANSWERS)]
    written, report = written_with(rows, case, tmp_path)
    assert (written, report.left_out) == ([], {LeftOut.NO_ANSWER: len(rows)})


@pytest.mark.parametrize("case", ["verl rl", "agent_tunix tasks"])
def test_a_task_is_exported_whatever_its_answers(case: str, tmp_path: Path) -> None:
    assert len(written_with([row(0, 0, 0.0, [text("")])], case, tmp_path)[0]) == 1


@pytest.mark.parametrize("case", ["sft", "sft tokens", "verl", "prime_rl", "sharegpt", "openai"])
def test_truncated_answers_are_not_supervised_examples(
    case: str, tmp_path: Path, token_data: list[dict[str, Any]]
) -> None:
    others = [
        {**each, "_ng_rollout_index": 10 + number, "_ng_outcome": "truncated"}
        for number, each in enumerate(token_data)
    ]
    plain, before = written_with(token_data, case, tmp_path)
    among_others, after = written_with([*others, *token_data], case, tmp_path)
    assert among_others == plain
    assert after.left_out - before.left_out == {LeftOut.OUTCOME: len(token_data)}


def without_nulls(value: Any) -> Any:
    """A column gives every object the fields of all; readers treat null as absent."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


LINES_ONLY = ("nemo_rl", "openai", "openenv", "prime_rl traces")


@pytest.mark.parametrize("case", sorted(CASES.keys() - {*LINES_ONLY, "verl", "verl rl"}))
def test_parquet_columns_hold_the_same_rows_as_json_lines(
    case: str, tmp_path: Path, token_data: list[dict[str, Any]]
) -> None:
    format, options = CASES[case]
    if "arguments" in find_format(format).options_type.model_fields:
        options = {**options, "arguments": "string"}
    rows = [*token_data, *ODD_ROWS]
    lines, _ = exported(tmp_path, format, rows, options=options)
    columns, _ = exported(tmp_path, format, rows, name="out.parquet", options=options)
    assert without_nulls(columns) == without_nulls(lines)


@pytest.mark.parametrize("case", LINES_ONLY)
def test_formats_whose_rows_parquet_would_change_refuse_it(case: str, tmp_path: Path) -> None:
    format, options = CASES[case]
    with pytest.raises(ConfigError, match=f"{format} is written as .jsonl"):
        exported(tmp_path, format, [], name="out.parquet", options=options)


def test_tunix_gets_complete_groups_only(tmp_path: Path, token_data: list[dict[str, Any]]) -> None:
    rows, report = exported(tmp_path, "agent_tunix", [*token_data, *ODD_ROWS])
    consumers.check_tunix_groups(rows, 4)
    assert len(rows) == report.exported > 40
    rows, report = exported(tmp_path, "agent_tunix", token_data, options={"num_generations": 3})
    consumers.check_tunix_groups(rows, 3)
    assert report.left_out[LeftOut.SURPLUS] > 0


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_input_is_not_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b"")
    output = tmp_path / f"out{find_format(name).endings[0]}"
    report = export(ExportSettings(format=name, inputs=[tmp_path / "in.jsonl"], output=output))
    assert report.read == report.exported == 0
    assert output.exists()


def test_formats_are_found_by_name_and_an_unknown_name_suggests_the_nearest() -> None:
    for name in NAMES:
        assert find_format(name.replace("_", "-")).name == name
    with pytest.raises(ConfigError, match="'shaergpt'") as caught:
        find_format("shaergpt")
    assert caught.value.failure.remedy == "Did you mean 'sharegpt'?"
    assert set(formats._CLASSES) == set(NAMES)


FOLDER = {
    "folder": "a",
    "dataset": "org/set",
    "license": "MIT",
    "split": "train",
    "deviations": [],
    "steps": 0,
}
ORIGIN = {"digest": "d" * 64, "dataset": "org/set", "license": "MIT", "split": "train"}
ROOMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "grpo": lambda row: row["task_origin"],
    "verl rl": lambda row: row["extra_info"]["task_origin"],
    "prime_rl traces": lambda row: row["task"]["data"]["task_origin"],
    "openenv": lambda row: row["turns"][0]["metadata"]["task_origin"],
}


@pytest.mark.parametrize("case", CASES)
def test_the_origin_of_a_task_folder_is_in_rows_with_room_and_in_every_report(
    case: str, tmp_path: Path, token_data: list[dict[str, Any]]
) -> None:
    format, options = CASES[case]
    rows = [{**each, "folder_digest": "d" * 64, "task_folder": FOLDER} for each in token_data]
    name = "out.parquet" if format == "verl" else "out.jsonl"
    written, report = exported(tmp_path, format, [*rows, *ODD_ROWS], name=name, options=options)
    (counted,) = report.to_json()["origins"]
    assert counted.pop("rollouts") > 5
    assert counted == {"dataset": "org/set", "source": "", "license": "MIT", "split": "train"}
    assert any("dataset org/set, source not stated, license MIT" in line for line in report.lines())
    if case in ROOMS:
        assert ORIGIN in [ROOMS[case](each) for each in written if "d" * 64 in str(each)]
    else:
        assert "task_origin" not in str(written)


@pytest.fixture(scope="module")
def forks() -> list[dict[str, Any]]:
    """Two forks each of four parents, which share their first call."""
    return fork_rows()


def count_masks(each: dict[str, Any]) -> int:
    """The trained tokens of a row of a format with masks."""
    match each:
        case {"labels": labels}:
            return sum(label != -100 for label in labels)
        case {"segments": segments}:
            return sum(sum(segment["loss_mask"]) for segment in segments)
        case {"conversation_masks": masks}:
            return sum(masks)
        case {"turns": turns}:
            return sum(sum(turn["loss_mask"]) for turn in turns)
        case {"traces": [trace]}:
            return sum(sum(node.get("mask") or ()) for node in trace["nodes"])
    return len(read_as_nemo_rl(each))


TOKEN_CASES = ("agent_tunix", "grpo", "nemo_rl", "openenv", "prime_rl traces", "sft tokens")
PROMPT_CASES = ("dpo", "kto", "openai")
WHOLE_CASES = ("prime_rl", "sft", "sharegpt", "verl")


@pytest.mark.parametrize("case", TOKEN_CASES)
def test_the_tokens_that_a_fork_shares_are_trained_in_its_parent_only(
    case: str, tmp_path: Path, forks: list[dict[str, Any]]
) -> None:
    options = {"num_generations": 2} if case == "agent_tunix" else CASES[case][1]
    settings: dict[str, Any] = {"min_reward": 0} if case.startswith("sft") else {}
    rows, _ = exported(tmp_path, CASES[case][0], forks, options=options, **settings)
    # Two forks have the same tokens here, and rows of supervised examples are written once.
    times = 1 if case.startswith("sft") else 2
    assert sum(map(count_masks, rows)) == times * sum(len(read_own(fork)) for fork in forks[::2])
    if case in ("grpo", "agent_tunix"):
        groups = {each.get("group_id") for each in rows}
        assert len(groups) == 4
        assert all(f"@{SHARED}" in str(group) for group in groups)


@pytest.mark.parametrize("case", PROMPT_CASES)
def test_the_turns_that_a_fork_shares_are_its_prompt(
    case: str, tmp_path: Path, forks: list[dict[str, Any]]
) -> None:
    rows, _ = exported(tmp_path, CASES[case][0], forks, options=CASES[case][1])
    assert rows
    for each in rows:
        if case == "openai":
            weights = [
                message.get("weight", 1) for message in each["messages"] if message["role"] == "assistant"
            ]
            assert weights[:SHARED] == [0] * SHARED
            assert sum(weights) == len(weights) - SHARED
        else:
            assert sum(message["role"] == "assistant" for message in each["prompt"]) == SHARED


@pytest.mark.parametrize("case", WHOLE_CASES)
def test_formats_that_train_whole_conversations_leave_forks_out(
    case: str, tmp_path: Path, forks: list[dict[str, Any]]
) -> None:
    rows, report = written_with(forks, case, tmp_path)
    assert rows == []
    assert report.left_out[LeftOut.SHARED_TURNS] == 4, report.left_out


def test_every_format_is_tried_with_forks() -> None:
    of_tasks = {"verl rl", "agent_tunix tasks", "dpo all", "dpo matched"}
    assert {*TOKEN_CASES, *PROMPT_CASES, *WHOLE_CASES} == CASES.keys() - of_tasks


def test_forks_of_two_parents_at_one_task_are_two_groups(tmp_path: Path, forks: list[dict[str, Any]]) -> None:
    others = [
        {**fork, "_ng_rollout_index": 10 + number, "reward": 5.0 + number}
        | {"_ng_fork": {**fork["_ng_fork"], "group": "0.1@1"}}
        for number, fork in enumerate(forks[:2])
    ]
    rows, _ = exported(tmp_path, "grpo", [*forks[:2], *others])
    assert len({each["group_id"] for each in rows}) == 2
    assert {each["group_mean"] for each in rows} == {0.5, 5.5}
