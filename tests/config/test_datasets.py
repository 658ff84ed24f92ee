from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.small_gym import load_text, only, problems_of, write_gym

BLOCK = """\
weather:
  resources_servers:
    weather:
      entrypoint: app.py
      datasets:
      - {dataset}
"""
AT = "weather.resources_servers.weather.datasets[0]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    (tmp_path / "prepare.py").write_text("")
    return write_gym(tmp_path)


def text(dataset: str) -> str:
    return BLOCK.replace("{dataset}", dataset)


def test_a_dataset_is_read_with_its_defaults_and_its_file(folder: Path) -> None:
    (found,) = load_text(
        folder, text("{name: d, type: train, jsonl_fpath: rows.jsonl, license: MIT}")
    ).datasets
    assert (found.server.name, found.dataset.name, found.dataset.num_repeats) == ("weather", "d", 1)
    assert (found.file, str(found.where)) == (folder / "rows.jsonl", "main.yaml:6:9")


@pytest.mark.parametrize("kind", ["train", "validation", "benchmark", "example"])
@pytest.mark.parametrize(
    "way", ["", ", prepare_script: prepare.py", ", source: {type: huggingface, repo_id: a/b}"]
)
def test_the_rows_may_be_absent_until_they_are_read(folder: Path, kind: str, way: str) -> None:
    dataset = f"{{name: d, type: {kind}, jsonl_fpath: later.jsonl{way}}}"
    assert load_text(folder, text(dataset)).datasets[0].file is None


def test_the_keys_of_other_gyms_datasets_are_known(folder: Path) -> None:
    dataset = "{name: d, type: train, jsonl_fpath: rows.jsonl, taskset: t, prepare_dependencies: [tenacity]}"
    assert load_text(folder, text(dataset)).datasets[0].dataset.taskset == "t"


@pytest.mark.parametrize(
    ("dataset", "message", "remedy"),
    [
        ("{type: train, jsonl_fpath: rows.jsonl}", f"{AT}.name is required.", ""),
        (
            "{name: d, type: exmaple, jsonl_fpath: rows.jsonl}",
            f"{AT}.type must be 'train', 'validation', 'example' or 'benchmark', not 'exmaple'.",
            "Did you mean 'example'?",
        ),
        (
            "{name: d, type: train, jsonl_fpath: rows.jsonl, num_repeat: 2}",
            f"There is no key '{AT}.num_repeat'.",
            "Did you mean 'num_repeats'?",
        ),
        (
            "{name: d, type: train, jsonl_fpath: rows.jsonl, num_repeats: 0}",
            f"{AT}.num_repeats must be greater than or equal to 1, not 0.",
            "",
        ),
        (
            "{name: d, type: train, jsonl_fpath: rows.jsonl, huggingface_identifier: {repo_id: a, artifact: b}}",
            f"There is no key '{AT}.huggingface_identifier.artifact'.",
            "Did you mean 'artifact_fpath'?",
        ),
        ("rows.jsonl", f"{AT} is not a mapping.", "Write `- name: ...`."),
    ],
)
def test_a_malformed_dataset_is_an_error(folder: Path, dataset: str, message: str, remedy: str) -> None:
    assert only(problems_of(folder, text(dataset)))[1:] == (message, remedy)


@pytest.mark.parametrize("key", ["prompt_config", "prepare_script"])
def test_other_files_of_a_dataset_have_to_be_there(folder: Path, key: str) -> None:
    problems = problems_of(folder, text(f"{{name: d, type: train, jsonl_fpath: rows.jsonl, {key}: no.file}}"))
    assert only(problems) == ("main.yaml:6:57", f"{AT}.{key}: there is no file 'no.file'.", "")


def test_datasets_that_are_no_list_are_an_error(folder: Path) -> None:
    problems = problems_of(
        folder, "weather:\n  resources_servers:\n    weather: {entrypoint: app.py, datasets: rows.jsonl}\n"
    )
    assert only(problems)[1] == "weather.resources_servers.weather.datasets is not a list."
