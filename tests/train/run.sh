#!/usr/bin/env bash
# `make test-train`: the tests of this folder, with TRL and the loaders of other trainers.
set -euo pipefail
cd "$(dirname "$0")/../.."
bash tests/train/install.sh loaders
export HF_HUB_OFFLINE=1 TRL_EXPERIMENTAL_SILENCE=1 OMP_NUM_THREADS=1
exec .venvs/train/bin/python -m pytest tests/train -v "$@"
