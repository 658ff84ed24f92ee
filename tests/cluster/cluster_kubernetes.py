"""The manifests of `examples/kubernetes` against the published schemas of Kubernetes. No cluster takes part."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from nemo_gym import PARENT_DIR

MANIFESTS = PARENT_DIR / "examples" / "kubernetes"
VALIDATE = PARENT_DIR / ".venvs" / "kubernetes" / "bin" / "kubernetes-validate"
VERSIONS = ("1.31", "1.34", "1.37")
"""The oldest one has every field that the manifests use."""
RESOURCES = 9
pytestmark = pytest.mark.skipif(
    not VALIDATE.exists(), reason="bash tests/cluster/install.sh builds its environment"
)


def validate(version: str, *manifests: Path) -> subprocess.CompletedProcess[str]:
    """Check resources; an unknown field is an error."""
    return subprocess.run(
        [VALIDATE, "--strict", "--kubernetes-version", version, *manifests],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_are_valid(version: str) -> None:
    names = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    done = validate(version, *(MANIFESTS / name for name in names))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == RESOURCES - 1


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
def test_what_kustomize_makes_of_them_is_valid(tmp_path: Path) -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(MANIFESTS)], capture_output=True, text=True, check=True
    )
    whole = tmp_path / "whole.yaml"
    whole.write_text(built.stdout)
    done = validate(VERSIONS[-1], whole)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == RESOURCES
    images = {
        container["image"]
        for each in yaml.safe_load_all(built.stdout)
        if each["kind"] in ("Job", "StatefulSet")
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"registry.example/gym:1"}


def test_an_unknown_field_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((MANIFESTS / "nodes.yaml").read_text().replace("replicas: 4", "replica: 4"))
    assert validate(VERSIONS[-1], wrong).returncode == 1
