"""`examples/kubernetes`: the command of the Job, with a stand-in for `kubectl`, and what its files must agree on.

`tests/cluster/cluster_kubernetes.py` checks the manifests against the schemas of Kubernetes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess

FOLDER = PARENT_DIR / "examples" / "kubernetes"
KUBECTL = 'test "$1 $2 $4" = "exec --stdin --" && echo "$3" >> {calls} && shift 4 && exec "$@"'
"""It executes the program here, as `kubectl` does in a pod."""


def resources() -> dict[str, dict[str, Any]]:
    """Kind → resource."""
    texts = [path.read_text() for path in FOLDER.glob("*.yaml") if path.name != "gym.yaml"]
    found = [each for text in texts for each in yaml.safe_load_all(text)]
    kinds = {each["kind"]: each for each in found}
    assert len(kinds) == len(found)
    return kinds


def container(kind: str) -> Any:
    return resources()[kind]["spec"]["template"]["spec"]["containers"][0]


def configuration() -> Any:
    return yaml.safe_load((FOLDER / "gym.yaml").read_text())


@pytest.mark.skipif("NEMO_GYM_TEST_DOCS" not in os.environ, reason="it is part of make test-docs")
def test_the_command_of_the_job_collects_on_its_nodes(tmp_path: Path) -> None:
    bin_folder, calls = tmp_path / "bin", tmp_path / "calls.txt"
    for folder in (bin_folder, tmp_path / "runtime"):
        folder.mkdir(mode=0o700)
    (bin_folder / "kubectl").write_text(f"#!/bin/sh\n{KUBECTL.format(calls=calls)}\n")
    (bin_folder / "kubectl").chmod(0o700)
    (tmp_path / "env.yaml").write_text("policy_api_key: sk-from-the-secret\n")
    job = container("Job")
    words = [word.replace("/etc/gym", str(FOLDER)).replace("$(POD_IP)", "127.0.0.1") for word in job["args"]]
    with EngineProcess(EngineOptions(model=configuration()["policy_model_name"])) as engine:
        done = subprocess.run(
            [*job["command"], *words, f"+policy_base_url={engine.base_url}"],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "XDG_RUNTIME_DIR": str(tmp_path / "runtime"),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    assert {row["_ng_outcome"] for row in rows} == {"completed"}
    assert sorted(calls.read_text().split()) == node_names()


def node_names() -> list[str]:
    nodes = resources()["StatefulSet"]
    return [f"{nodes['metadata']['name']}-{number}" for number in range(nodes["spec"]["replicas"])]


def test_configuration_pods_and_permissions_name_the_same_nodes() -> None:
    assert [host["host"] for host in configuration()["hosts"]] == node_names()
    allowed = [rule["resourceNames"] for rule in resources()["Role"]["rules"] if rule["apiGroups"] == [""]]
    assert allowed == [node_names()] * 2


def test_a_node_declares_the_cpus_that_its_pod_requests() -> None:
    requested = float(container("StatefulSet")["resources"]["requests"]["cpu"])
    assert {host["num_cpus"] for host in configuration()["hosts"]} == {requested}


def test_kustomize_reads_every_file() -> None:
    kustomization = resources()["Kustomization"]
    (configured,) = kustomization["configMapGenerator"]
    named = {*kustomization["resources"], *configured["files"], "kustomization.yaml"}
    assert named == {path.name for path in FOLDER.glob("*.yaml")}
    (image,) = kustomization["images"]
    assert {container("Job")["image"], container("StatefulSet")["image"]} == {image["name"]}
