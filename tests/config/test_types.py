from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from nemo_gym.config_types import (
    AgentServerRef,
    AggregateMetrics,
    BaseRunServerInstanceConfig,
    DatasetConfig,
    ModelServerRef,
    ResourcesServerRef,
    ServerRef,
)


def test_a_server_config_is_made_as_environments_do() -> None:
    config = BaseRunServerInstanceConfig(host="0.0.0.0", port=8080, entrypoint="", name="")
    assert (config.num_workers, config.domain) == (None, None)


def test_an_unknown_domain_is_rejected() -> None:
    with pytest.raises(ValidationError):
        BaseRunServerInstanceConfig.model_validate(
            {"host": "h", "port": 1, "entrypoint": "", "name": "", "domain": "cooking"}
        )


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("responses_api_models", ModelServerRef),
        ("resources_servers", ResourcesServerRef),
        ("responses_api_agents", AgentServerRef),
    ],
)
def test_a_reference_is_of_the_type_that_it_names(kind: str, type_: type) -> None:
    assert isinstance(TypeAdapter[ServerRef](ServerRef).validate_python({"type": kind, "name": "x"}), type_)


def test_metrics_are_empty_unless_given() -> None:
    assert AggregateMetrics().model_dump() == {
        "group_level_metrics": [],
        "repeat_level_metrics": [],
        "agent_metrics": {},
        "key_metrics": {},
    }


def test_the_source_of_a_dataset_is_discriminated_by_its_type() -> None:
    dataset = {"name": "d", "type": "train", "jsonl_fpath": "x", "source": {"type": "gitlab", "repo_id": "a"}}
    with pytest.raises(ValidationError, match="gitlab"):
        DatasetConfig.model_validate(dataset)
