#!/usr/bin/env bash
# Builds .venvs/kubernetes with the published schemas of Kubernetes, for cluster_kubernetes.py: 20 seconds, 150 MB.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.venvs/kubernetes
edition=$(cksum < tests/cluster/install.sh | cut -d' ' -f1)

if [ ! -f "$venv/.ready-$edition" ]; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
    touch "$venv/.ready-$edition"
fi
