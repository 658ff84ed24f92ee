"""The identity of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.names import CODE_KEY
from nemo_gym.rollouts.output.manifest import (
    AllowedChanges,
    Change,
    Manifest,
    build_identity,
    code_identity,
    describe_repository,
    refuse_changes,
)
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.inspection import inspect
from nemo_gym.rollouts.plan.plan import PlanSettings
from tests.rollouts.doubles import write_dataset

SERVERS: dict[str, Any] = {
    "policy_model": {
        "responses_api_models": {
            "openai_model": {
                "host": "127.0.0.1",
                "port": 4000,
                "openai_base_url": "http://engine/v1",
                "openai_api_key": "sk-secret-value",
                "openai_model": "small",
                "extra_body": {"max_output_tokens": 100},
            }
        }
    }
}


def identity(
    path: Path, servers: dict[str, Any] | None = None, repeats: int = 1, **options: Any
) -> dict[str, Any]:
    settings = PlanSettings((DatasetFile(path, num_repeats=repeats),), **options)
    return build_identity(settings, inspect(settings), SERVERS if servers is None else servers)


def model(**changed: Any) -> dict[str, Any]:
    block = SERVERS["policy_model"]["responses_api_models"]["openai_model"] | changed
    return {"policy_model": {"responses_api_models": {"openai_model": block}}}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "rows.jsonl", 3)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path, dataset: Path) -> None:
    path = tmp_path / "out_run.json"
    assert Manifest.read(path) is None
    Manifest(identity(dataset), [{"started_at": "now"}]).write(path)
    manifest = Manifest.read(path)
    assert manifest is not None
    assert manifest.changes_to(identity(dataset)) == []
    assert manifest.starts == [{"started_at": "now"}]


def test_no_secret_and_no_address_is_in_it(tmp_path: Path, dataset: Path) -> None:
    path = tmp_path / "out_run.json"
    Manifest(identity(dataset)).write(path)
    text = path.read_text()
    assert "sk-secret-value" not in text
    assert "http://engine" not in text
    assert orjson.loads(text)["identity"]["config"] == {
        "policy_model": {
            "responses_api_models": {
                "openai_model": {"openai_model": "small", "extra_body": {"max_output_tokens": 100}}
            }
        }
    }


def test_servers_that_moved_are_the_same_servers(dataset: Path) -> None:
    moved = model(
        host="10.0.0.1", port=5000, openai_base_url="http://other/v1", openai_api_key="sk-2", num_workers=3
    )
    assert Manifest(identity(dataset)).changes_to(identity(dataset, moved)) == []


def test_every_change_is_named_with_both_values(dataset: Path, tmp_path: Path) -> None:
    before = Manifest(identity(dataset))
    other = write_dataset(tmp_path / "other.jsonl", 2)
    changes = before.changes_to(
        identity(other, model(openai_model="large"), overrides={"temperature": 0.5}, add_seed=True)
    )
    fields = [change.field for change in changes]
    assert fields == [
        "datasets.0.sha256",
        "datasets.0.rows",
        "settings.num_repeats_add_seed",
        "config.policy_model.responses_api_models.openai_model.openai_model",
        "responses_create_params.temperature",
    ]
    with pytest.raises(ConfigError) as caught:
        refuse_changes(changes, tmp_path / "out_run.json")
    message = str(caught.value)
    assert 'openai_model.openai_model: "small" -> "large"' in message
    assert "responses_create_params.temperature: null -> 0.5" in message
    assert "+allow_identity_change=true" in message


def test_more_repeats_extend_a_run_and_fewer_make_it_another(dataset: Path, tmp_path: Path) -> None:
    manifest = Manifest(identity(dataset, repeats=4))
    refuse_changes(manifest.changes_to(identity(dataset, repeats=8)), tmp_path)
    with pytest.raises(ConfigError, match="num_repeats: 4 -> 2"):
        refuse_changes(manifest.changes_to(identity(dataset, repeats=2)), tmp_path)


def test_a_prompt_counts_by_its_content(dataset: Path, tmp_path: Path) -> None:
    rows = tmp_path / "questions.jsonl"
    rows.write_text('{"question": "x"}\n')
    digests = []
    for name, text in (
        ("a.yaml", "user: 'Q: {question}'"),
        ("b.yaml", "user: 'Q: {question}'  # same"),
        ("c.yaml", "user: '{question}'"),
    ):
        (tmp_path / name).write_text(text)
        settings = PlanSettings((DatasetFile(rows, agent_name="a", prompt_config=tmp_path / name),))
        digests.append(build_identity(settings, inspect(settings), {})["datasets"][0]["prompt_sha256"])
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"{}", b'{"schema_version": 99, "identity": {}, "starts": []}']
)
def test_a_manifest_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "out_run.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"out_run\.json"):
        Manifest.read(path)


def gym_with(**servers: list[list[str]]) -> dict[str, Any]:
    told = [{"name": name, "files": files} for name, files in servers.items()]
    return {CODE_KEY: {"version": "1", "servers": told, "repository": None}}


def test_the_files_of_the_servers_that_take_part_are_the_code() -> None:
    gym = gym_with(
        env=[["env/app.py", "a"], ["shared.py", "s"]], agent=[["shared.py", "s"]], other=[["o.py", "o"]]
    )
    assert code_identity(gym, ["env", "agent", "head"])["files"] == {"env/app.py": "a", "shared.py": "s"}
    assert "files" not in code_identity({}, ["env"])


def test_two_files_of_one_name_are_both_the_code() -> None:
    one, other = (
        gym_with(a=[["x.py", "1"]], b=[["x.py", "2"]]),
        gym_with(a=[["x.py", "1"]], b=[["x.py", "3"]]),
    )
    assert code_identity(one, "ab")["files"] != code_identity(other, "ab")["files"]


def with_files(**files: str) -> dict[str, Any]:
    return {"datasets": [], "config": {}, "code": {"version": "1", "files": files}}


def test_changed_files_are_named_with_three_ways_to_go_on(tmp_path: Path) -> None:
    before, after = with_files(a="1", b="1", c="1"), with_files(**{"a": "2", "b": "1", "d.py": "1"})
    changes = Manifest(before).changes_to(after)
    assert [str(change) for change in changes] == ["a has changed", "c was removed", "d.py was added"]
    with pytest.raises(ConfigError) as caught:
        refuse_changes(changes, tmp_path / "out_run.json")
    remedy = caught.value.failure.remedy or ""
    for way in ("gym eval reverify", str(tmp_path / "out.jsonl"), "--mark-new-code", "--overwrite"):
        assert way in remedy
    assert "allow_identity_change" not in remedy
    refuse_changes(changes, tmp_path, AllowedChanges(code=True))
    refuse_changes(changes, tmp_path, AllowedChanges(everything=True))
    with pytest.raises(ConfigError):
        refuse_changes(changes, tmp_path, AllowedChanges(tasks=True))


def test_the_code_of_a_gym_that_does_not_tell_it_is_not_compared() -> None:
    unknown: dict[str, Any] = {"datasets": [], "config": {}, "code": {"version": "1"}}
    assert Manifest(unknown).changes_to(with_files(a="1")) == []
    assert Manifest(with_files(a="1")).changes_to(unknown) == []
    added = Manifest(with_files()).changes_to(with_files(**{"a.py": "1"}))
    assert [change.field for change in added] == ["code.files.a.py"]


def test_a_file_that_a_server_may_have_written_is_no_change() -> None:
    assert Manifest(with_files(a="1")).changes_to(with_files(**{"a": "1", "data/seen.db": "1"})) == []


@pytest.mark.parametrize(
    ("name", "is_of_tasks"),
    [
        ("datasets.0.sha256", True),
        ("datasets.12.rows", True),
        ("datasets.1", True),
        ("settings.limit", True),
        ("datasets.0.agent_name", False),
        ("datasets.0.prompt_sha256", False),
        ("datasets.0.num_repeats", False),
        ("settings.agent_map.a", False),
        ("config.env.datasets.0.rows", False),
    ],
)
def test_only_which_tasks_there_are_is_a_change_of_tasks(
    tmp_path: Path, name: str, is_of_tasks: bool
) -> None:
    change = Change(name, 2, 1)
    assert change.is_of_tasks is is_of_tasks
    assert AllowedChanges(tasks=True).includes(change) is is_of_tasks
    with pytest.raises(ConfigError) as caught:
        refuse_changes([change], tmp_path / "out_run.json")
    assert ("--add-tasks" in str(caught.value)) is is_of_tasks


def test_a_dataset_more_or_less_is_one_change(dataset: Path, tmp_path: Path) -> None:
    other = DatasetFile(write_dataset(tmp_path / "more.jsonl", 2))
    settings = PlanSettings((DatasetFile(dataset), other))
    both = build_identity(settings, inspect(settings), SERVERS)
    assert [change.field for change in Manifest(identity(dataset)).changes_to(both)] == ["datasets.1"]
    assert [change.field for change in Manifest(both).changes_to(identity(dataset))] == ["datasets.1"]


def test_numbered_tasks_are_kept_and_hidden_from_an_older_gym(dataset: Path, tmp_path: Path) -> None:
    path = tmp_path / "out_run.json"
    Manifest(identity(dataset), tasks=[[[4, 1], [0, 2]]]).write(path)
    assert orjson.loads(path.read_bytes())["schema_version"] == 2
    manifest = Manifest.read(path)
    assert manifest is not None
    assert manifest.tasks == [[[4, 1], [0, 2]]]


def test_a_repository_is_described_by_its_commit() -> None:
    assert describe_repository({"commit": "0123456789abcdef", "dirty": False}) == "0123456789ab"
    assert describe_repository({"commit": "0123456789abcdef", "dirty": True}) == "0123456789ab, with changes"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sampling_overrides", {"temperature": 0.1}),
        ("stop_token", "</s>"),
        ("eos_token", "</s>"),
        ("chat_template", "template.jinja"),
        ("limits", {"datasets": 3}),
        ("max_output_tokens", 5),
        ("sort_key", "name"),
    ],
)
def test_an_option_with_a_name_like_that_of_a_secret_or_of_a_dataset_counts(
    dataset: Path, name: str, value: object
) -> None:
    changes = Manifest(identity(dataset)).changes_to(identity(dataset, model(**{name: value})))
    assert [change.field.rpartition("openai_model.")[2].partition(".")[0] for change in changes] == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hf_token", "hf_abcdefgh"),
        ("db_pwd", "secret-value"),
        ("datasets", [{"jsonl_fpath": "x"}]),
        ("judge_base_url", "http://other/v1"),
    ],
)
def test_secrets_addresses_and_declared_datasets_do_not_count(
    dataset: Path, name: str, value: object
) -> None:
    assert Manifest(identity(dataset)).changes_to(identity(dataset, model(**{name: value}))) == []


def test_a_password_in_a_url_is_not_written(dataset: Path) -> None:
    config = identity(dataset, model(database="postgres://reader:hidden-word@db/shop"))["config"]
    assert "hidden-word" not in str(config)
    assert "/shop" in str(config)


def test_the_datasets_of_the_run_are_no_code_though_they_lie_in_the_folder_of_a_server(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "resources_servers/env/data"
    folder.mkdir(parents=True)
    rows = write_dataset(folder / "raw.jsonl", 2)
    prefix = "resources_servers/env/data"
    gym = gym_with(env=[[f"{prefix}/raw.jsonl", "a"], [f"{prefix}/gold.json", "b"], ["aw.jsonl", "c"]])
    files = code_identity(gym, ["env"], [rows, tmp_path / "missing.jsonl"])["files"]
    assert list(files) == ["aw.jsonl", f"{prefix}/gold.json"]


def with_engine(code: str = "1", **facts: Any) -> dict[str, Any]:
    return with_files(app=code) | ({"engines": {"policy_model": facts}} if facts else {})


def test_another_engine_is_refused_and_offered_by_name(tmp_path: Path) -> None:
    before = Manifest(with_engine(id="m", version="0.9", max_model_len=4096))
    changes = before.changes_to(with_engine(id="m", version="0.10", max_model_len=[2048, 4096]))
    assert [str(change) for change in changes] == [
        'engines.policy_model.version: "0.9" -> "0.10"',
        "engines.policy_model.max_model_len: 4096 -> [2048,4096]",
    ]
    with pytest.raises(ConfigError) as caught:
        refuse_changes(changes, tmp_path / "out_run.json")
    remedy = caught.value.failure.remedy or ""
    assert "--mark-new-engine" in remedy
    assert "--mark-new-code" not in remedy
    assert "allow_identity_change" not in remedy
    refuse_changes(changes, tmp_path, AllowedChanges(engine=True))
    for other in (AllowedChanges(code=True), AllowedChanges(tasks=True)):
        with pytest.raises(ConfigError):
            refuse_changes(changes, tmp_path, other)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"id": "m"}),
        ({"id": "m"}, {}),
        ({"id": "m"}, {"id": "m", "version": "1"}),
        ({"version": "1"}, {"id": "m"}),
    ],
)
def test_what_an_engine_does_not_tell_is_not_compared(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert Manifest(with_engine(**before)).changes_to(with_engine(**after)) == []


def begin(manifest: Manifest, identity: dict[str, Any]) -> str | None:
    start = {"started_at": "now", "finished_before": len(manifest.starts)}
    return manifest.begin(identity, start, manifest.changes_to(identity))


def test_a_fact_that_is_not_told_once_is_still_known_at_the_next_start() -> None:
    manifest = Manifest(with_engine(id="m", version="1"))
    begin(manifest, with_engine(id="m", version="1"))
    begin(manifest, with_engine(id="m"))
    begin(manifest, with_engine())
    assert [change.field for change in manifest.changes_to(with_engine(version="2"))] == [
        "engines.policy_model.version"
    ]


def test_rows_of_another_engine_are_marked_and_those_of_the_first_are_not() -> None:
    manifest = Manifest(with_engine(version="1"))
    assert begin(manifest, with_engine(version="1")) is None
    mark = begin(manifest, with_engine(version="2"))
    assert mark is not None
    assert begin(manifest, with_engine(version="2")) == mark
    assert begin(manifest, with_engine(version="1")) is None
    other = begin(manifest, with_engine(code="2", version="2"))
    assert other not in (None, mark)
    assert [each["engines"]["policy_model"]["version"] for each in manifest.codes] == ["1", "2", "2"]
    (note,) = manifest.describe_codes("out_run.json")
    assert "3 versions of the code or its engines" in note
