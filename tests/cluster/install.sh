#!/usr/bin/env bash
# Builds .venvs/kubernetes with the published schemas of Kubernetes, for cluster_kubernetes.py: 20 seconds, 150 MB. And
# .venvs/ray with Ray and the gym, for cluster_ray.py: a minute, 1.2 GB.
set -euo pipefail
cd "$(dirname "$0")/../.."
edition=$(cat tests/cluster/install.sh pyproject.toml | cksum | cut -d' ' -f1)

build() {
    venv=.venvs/$1
    if [ ! -f "$venv/.ready-$edition" ]; then
        "${PYTHON:-python3}" -m venv --clear "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
        touch "$venv/.ready-$edition"
    fi
}

build kubernetes kubernetes-validate==1.37.0
build ray -e '.[dev,ray]' uv
