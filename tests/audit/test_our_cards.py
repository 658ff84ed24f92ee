"""The cards of our environments: complete, without a known error, and within the bounds of what is claimed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from nemo_gym.audit.claims import find_faults
from nemo_gym.statistics.distributions import find_rate_interval
from tests.audit.our_cards import ENVIRONMENTS, EXAMPLES_ONLY, GENERATED, NOT_AUDITED, UNCLAIMED, find_card

NAMES = {folder.parent.name for folder in ENVIRONMENTS.glob("*/app.py")}
AUDITED = sorted({*GENERATED, *EXAMPLES_ONLY})


def read_card(name: str) -> Any:
    return json.loads(find_card(name).read_text())


def test_each_environment_has_a_card_or_a_reason() -> None:
    assert {*AUDITED, *NOT_AUDITED} == NAMES
    assert {name for name in NAMES if find_card(name).exists()} == set(AUDITED)


@pytest.mark.parametrize("name", AUDITED)
def test_no_environment_of_ours_has_a_known_error(name: str) -> None:
    wrong = {each["class"]: each["examples"] for each in read_card(name)["classes"] if each["wrong"]}
    assert wrong == {}


@pytest.mark.parametrize("name", GENERATED)
def test_a_tenth_of_a_class_is_undecided_at_most(name: str) -> None:
    classes = read_card(name)["classes"]
    doubtful = {
        each["class"] for each in classes if each["undecided"] > 0.1 * (each["undecided"] + each["probes"])
    }
    assert doubtful == set()


def read_claims(name: str) -> set[object]:
    files = (ENVIRONMENTS / name / "configs").glob("*.yaml")
    servers = [server for file in files for server in yaml.safe_load(file.read_text()).values()]
    blocks = [
        block
        for server in servers
        if isinstance(server, dict)
        for block in server.get("resources_servers", {}).values()
    ]
    return {block.get("verified") for block in blocks}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_environment_claims_what_its_card_supports(name: str) -> None:
    is_supported = name in GENERATED and not list(find_faults(find_card(name)))
    assert read_claims(name) == {is_supported and name not in UNCLAIMED}


def test_all_environments_together_are_within_half_a_per_cent_and_two() -> None:
    """Tasks are the trials; no class of any environment has a wrong verdict."""
    cards = [read_card(name) for name in GENERATED]
    assert sum(card["false_accepts"]["probes"] for card in cards) > 10_000
    for error, bound in {"false_accepts": 0.005, "false_rejects": 0.02}.items():
        tasks = sum(card[error]["tasks"] for card in cards)
        wrong = sum(card[error]["rate"] * card[error]["tasks"] for card in cards)
        assert find_rate_interval(wrong, tasks, error=0.1)[1] < bound
