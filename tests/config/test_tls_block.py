from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from nemo_gym.config.loading import load
from nemo_gym.config.problems import ConfigErrors
from tests.certificates import Authority, overrides_of
from tests.config.small_gym import POLICY, load_in, problems_in, write_gym

LINE = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)
TOKEN = "+run_token=0123456789abcdef"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@pytest.fixture
def tls(authority: Authority) -> dict[str, str]:
    return authority.issue()


def test_the_files_of_a_configuration_are_checked_for_the_hosts_of_its_servers(
    tls: dict[str, str], tmp_path: Path
) -> None:
    folder = write_gym(tmp_path)
    given = overrides_of(tls)
    assert load_in(folder, *LINE, *given).data["tls"] == tls
    assert load_in(folder, *LINE, *given, "+default_host=0.0.0.0", TOKEN).data["tls"] == tls
    (problem,) = problems_in(folder, *LINE, *given, "+weather.resources_servers.weather.host=10.0.0.1", TOKEN)
    assert str(problem.where) == f"command line: {given[0]}"
    assert problem.message.endswith("is not valid for 10.0.0.1, where servers are called.")


def test_relative_files_are_below_the_working_folder(tls: dict[str, str], tmp_path: Path) -> None:
    folder = write_gym(tmp_path)
    relative = {key: str(Path(path).relative_to(folder)) for key, path in tls.items()}
    assert load_in(folder, *LINE, *overrides_of(relative)).data["tls"] == tls


def test_problems_of_the_files_are_told_with_all_others(tls: dict[str, str], tmp_path: Path) -> None:
    folder = write_gym(tmp_path)
    problems = problems_in(folder, *LINE, f"+tls.ca={tls['ca']}", "+tls.chain=x", "+no_such_key=1")
    assert {problem.message for problem in problems} >= {
        "tls.cert is missing.",
        "tls.key is missing.",
        "The key 'no_such_key' is not used.",
    }
    assert any("chain" in problem.message for problem in problems)
    (problem,) = problems_in(folder, *LINE, f"+tls.cert={tls['cert']}")
    assert "ca" in problem.message


def test_without_servers_only_the_ca_is_needed(tls: dict[str, str], tmp_path: Path) -> None:
    assert load_in(tmp_path, f"+tls.ca={tls['ca']}").data["tls"] == {"ca": tls["ca"]}


class _Keys(BaseModel):
    placement: str = "process"


@pytest.mark.parametrize(
    ("placement", "names", "overrides"),
    [
        ("hosts", ["10.0.0.1"], ["+advertised_host=10.0.0.1"]),
        ("ray", ["10.0.0.1"], ["+advertised_host=10.0.0.1"]),
        ("ray", ["10.0.0.9"], []),
    ],
)
def test_on_several_machines_the_certificate_here_is_for_the_advertised_host(
    authority: Authority, tmp_path: Path, placement: str, names: list[str], overrides: list[str]
) -> None:
    folder = write_gym(tmp_path)

    def loaded(*names: str) -> Any:
        given = overrides_of(authority.issue(*names))
        line = (*LINE, *given, *overrides, f"+placement={placement}")
        return load(line, working_directory=folder, command_keys=_Keys)

    assert loaded(*names).data["tls"]
    if overrides:
        with pytest.raises(ConfigErrors, match=r"is not valid for 10\.0\.0\.1"):
            loaded("10.0.0.2")
