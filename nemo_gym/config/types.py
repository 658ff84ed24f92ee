"""Configuration and reference types that environments, agents and models are written against.

Importing this module loads pydantic and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.names import SERVER_KINDS as SERVER_KINDS
from nemo_gym.names import ServerKind as ServerKind

Domain: TypeAlias = Literal[
    "math",
    "coding",
    "agent",
    "knowledge",
    "instruction_following",
    "long_context",
    "safety",
    "games",
    "translation",
    "e2e",
    "rlhf",
    "other",
]


class ModelServerRef(BaseModel):
    """Names a model server of the same configuration."""

    type: Literal["responses_api_models"]
    name: str


class ResourcesServerRef(BaseModel):
    """Names a resources server of the same configuration."""

    type: Literal["resources_servers"]
    name: str


class AgentServerRef(BaseModel):
    """Names an agent of the same configuration."""

    type: Literal["responses_api_agents"]
    name: str


ServerRef: TypeAlias = ModelServerRef | ResourcesServerRef | AgentServerRef


class BaseServerConfig(BaseModel):
    """Where a server listens."""

    model_config = ConfigDict(hide_input_in_errors=True)  # the input of a server's options holds keys

    host: str
    port: int
    num_workers: int | None = None
    """Processes that serve this one address; None means one."""


class BaseRunServerConfig(BaseServerConfig):
    """A server that the gym starts."""

    entrypoint: str
    """The file to run, in the implementation's folder."""
    domain: Domain | None = None
    """What a resources server's tasks are about."""


class BaseRunServerInstanceConfig(BaseRunServerConfig):
    """A server that the gym starts, with the name that it has in the configuration."""

    name: str


class GitlabIdentifier(BaseModel):
    """A file in a GitLab model registry."""

    model_config = ConfigDict(extra="forbid")

    dataset_name: str
    version: str
    artifact_fpath: str


class HuggingFaceIdentifier(BaseModel):
    """A dataset, or one file of it, on the Hugging Face hub."""

    model_config = ConfigDict(extra="forbid")

    repo_id: str
    artifact_fpath: str | None = None


class GitlabSource(GitlabIdentifier):
    type: Literal["gitlab"]


class HuggingFaceSource(HuggingFaceIdentifier):
    type: Literal["huggingface"]


DatasetType: TypeAlias = Literal["train", "validation", "example", "benchmark"]


class DatasetConfig(BaseModel):
    """A file of task rows that belongs to a server."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    type: DatasetType
    jsonl_fpath: str = Field(min_length=1)
    num_repeats: int = Field(1, ge=1)
    """Attempts at each row."""
    license: str | None = None
    source: Annotated[GitlabSource | HuggingFaceSource, Field(discriminator="type")] | None = None
    """Where the file can be fetched from; an identifier below says the same in the older way."""
    gitlab_identifier: GitlabIdentifier | None = None
    huggingface_identifier: HuggingFaceIdentifier | None = None
    prompt_config: str | None = None
    """A YAML file with the prompt that rows are filled into."""
    prepare_script: str | None = None
    """A script that makes the file."""
    agent: str | None = None
    """The agent that runs the rows, where several could."""
