"""Configuration and reference types for the code of environments, agents and models.

Importing this module imports only pydantic.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

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
    """A reference to a model server of the same configuration."""

    type: Literal["responses_api_models"]
    name: str


class ResourcesServerRef(BaseModel):
    """A reference to a resources server of the same configuration."""

    type: Literal["resources_servers"]
    name: str


class AgentServerRef(BaseModel):
    """A reference to an agent of the same configuration."""

    type: Literal["responses_api_agents"]
    name: str


ServerRef: TypeAlias = ModelServerRef | ResourcesServerRef | AgentServerRef


class Placement(BaseModel, extra="forbid", frozen=True):
    """The replicas of a server on nodes, and what each of them needs."""

    replicas: int | None = Field(None, ge=1)
    """Number of processes; None for `num_workers`."""
    num_cpus: float = Field(0.0, ge=0.0)
    """CPUs that are reserved for each replica. A reservation only decides the node, and limits no process."""
    num_gpus: int = Field(0, ge=0)
    """GPUs of each replica, which sees no others (`CUDA_VISIBLE_DEVICES`)."""
    resources: dict[str, float] = Field(default_factory=dict)
    """Amounts of resources with names of one's own, as `hosts` declares them."""
    spread: bool = True
    """True spreads the replicas over the nodes; false fills one node before the next."""
    node: str | None = None
    """The only host that may run the replicas."""
    max_in_flight: int | None = Field(None, ge=1)
    """Sessions of which each replica handles requests at once; others wait. None for no limit."""

    @property
    def needs(self) -> dict[str, float]:
        """The amounts that one replica needs, by their names."""
        amounts = {"num_cpus": self.num_cpus, "num_gpus": float(self.num_gpus), **self.resources}
        return {name: amount for name, amount in amounts.items() if amount}


class BaseServerConfig(BaseModel):
    """The address of a server."""

    model_config = ConfigDict(hide_input_in_errors=True)  # the options of a server may contain API keys

    host: str
    port: int
    num_workers: int | None = None
    """Number of processes that serve this address; None means one."""


class BaseRunServerConfig(BaseServerConfig):
    """A server that the gym starts."""

    entrypoint: str
    """The file to run, in the implementation's folder."""
    domain: Domain | None = None
    """The subject of a resources server's tasks."""
    placement: Placement | None = None
    """Its replicas on several machines. On one machine only `max_in_flight` has an effect."""


class BaseRunServerInstanceConfig(BaseRunServerConfig):
    """A server that the gym starts, with its name in the configuration."""

    name: str


class GitlabIdentifier(BaseModel, extra="forbid"):
    """A file in a GitLab model registry."""

    dataset_name: str
    version: str
    artifact_fpath: str


class HuggingFaceIdentifier(BaseModel, extra="forbid"):
    """A dataset, or one file of it, on the Hugging Face hub."""

    repo_id: str
    artifact_fpath: str | None = None


class GitlabSource(GitlabIdentifier):
    type: Literal["gitlab"]


class HuggingFaceSource(HuggingFaceIdentifier):
    type: Literal["huggingface"]


DatasetType: TypeAlias = Literal["train", "validation", "example", "benchmark"]


class DatasetConfig(BaseModel, extra="forbid"):
    """A file of task rows that belongs to a server."""

    name: str = Field(min_length=1)
    type: DatasetType
    jsonl_fpath: str = Field(min_length=1)
    num_repeats: int = Field(1, ge=1)
    """Number of attempts at each row."""
    license: str | None = None
    source: Annotated[GitlabSource | HuggingFaceSource, Field(discriminator="type")] | None = None
    """The place from which the file can be fetched. The identifiers below are an older form of it."""
    gitlab_identifier: GitlabIdentifier | None = None
    huggingface_identifier: HuggingFaceIdentifier | None = None
    prompt_config: str | None = None
    """A YAML file with the prompt template of the rows."""
    prepare_script: str | None = None
    """A script that creates the file."""
    agent: str | None = None
    """The agent or environment server that runs the rows, if several could."""
    taskset: str | None = None
    """A name of the rows' tasks, for datasets that share them."""
    prepare_dependencies: list[str] | None = None
    """Packages that `prepare_script` imports."""
