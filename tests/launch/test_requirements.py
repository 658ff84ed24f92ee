from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.launch._requirements import find_unsatisfied, own_requirements, read_requirements
from nemo_gym.launch.errors import LaunchError


def written(folder: Path, text: str, name: str = "requirements.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "line",
    [
        "-e nemo-gym[dev] @ ../../",
        "nemo_gym",
        "NeMo-Gym>=0.1",
        "-e ../..",
        f"-e {PARENT_DIR}",
        "--editable=nemo-gym @ file:///somewhere",
    ],
)
def test_a_line_that_names_nemo_gym_requires_nothing(line: str, tmp_path: Path) -> None:
    requirements = read_requirements(written(tmp_path, f"{line}\n"))
    assert find_unsatisfied(requirements) == []
    assert requirements.lines == ()


def test_a_package_whose_name_starts_with_nemo_gym_is_another_package(tmp_path: Path) -> None:
    assert read_requirements(written(tmp_path, "nemo-gymnastics\n")).packages == ("nemo-gymnastics",)


def test_comments_blanks_continuations_includes_and_options_are_understood(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    written(tmp_path / "more", "httpx>=0.20  # the client\n-e ./local\n", "extra.txt")
    path = written(
        tmp_path, "# header\n\nfoo[bar]>=1, \\\n <2\n-r more/extra.txt\n--extra-index-url https://x/simple\n"
    )
    requirements = read_requirements(path)
    assert requirements.packages == ("foo[bar]>=1,   <2", "httpx>=0.20")
    assert requirements.options == ("--extra-index-url https://x/simple",)
    assert requirements.places == (f"-e {(tmp_path / 'more' / 'local').resolve()}",)


def test_an_include_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"missing\.txt does not exist"):
        read_requirements(written(tmp_path, "-r missing.txt\n"))


def test_an_installed_matching_version_satisfies(tmp_path: Path) -> None:
    text = (
        f"orjson\nfastapi>=0.100\nPyYAML=={metadata.version('pyyaml')}\nuvloop; sys_platform == 'nowhere'\n"
    )
    assert find_unsatisfied(read_requirements(written(tmp_path, text))) == []


def test_unmet_requirements_are_reported_with_the_installed_version(tmp_path: Path) -> None:
    text = "a-package-that-does-not-exist\nfastapi<0.1\nnot-there; sys_platform == 'nowhere'\n"
    assert find_unsatisfied(read_requirements(written(tmp_path, text))) == [
        "a-package-that-does-not-exist (not installed)",
        f"fastapi<0.1 ({metadata.version('fastapi')} is installed)",
    ]


def test_the_requirements_of_an_extra_count(tmp_path: Path) -> None:
    # aiohttp's extra `speedups` wants a resolver that this environment does not have.
    requirements = read_requirements(written(tmp_path, "aiohttp[speedups]\n"))
    assert any("(not installed)" in line for line in find_unsatisfied(requirements))


def test_places_without_a_name_never_count_as_installed(tmp_path: Path) -> None:
    text = "git+https://example.com/repo.git\nhttps://example.com/x.whl\n./wheels/y.whl\n"
    requirements = read_requirements(written(tmp_path, text))
    assert find_unsatisfied(requirements) == list(requirements.places)
    assert requirements.places[2] == str(tmp_path / "wheels" / "y.whl")


def test_a_package_by_url_must_have_come_from_there(tmp_path: Path) -> None:
    text = "orjson @ https://example.com/orjson.whl\n"
    (problem,) = find_unsatisfied(read_requirements(written(tmp_path, text)))
    assert problem.endswith("(installed from elsewhere)")


def test_an_invalid_requirement_is_an_error_that_quotes_it(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="`>=what` is not a valid requirement"):
        find_unsatisfied(read_requirements(written(tmp_path, ">=what\n")))


def test_extras_of_nemo_gym_except_dev_count(tmp_path: Path) -> None:
    requirements = read_requirements(written(tmp_path, "nemo-gym[dev,vllm]\n"))
    assert requirements.own_extras == ("vllm",)
    assert any(line.startswith("vllm") for line in find_unsatisfied(requirements))


def test_own_requirements_are_the_core_and_the_requested_extras() -> None:
    core = own_requirements([])
    assert any(line.startswith("fastapi") for line in core)
    assert not any(line.startswith(("vllm", "pytest")) for line in core)
    assert {line for line in own_requirements(["vllm"]) if line not in core} == {"vllm>=0.10.2"}
