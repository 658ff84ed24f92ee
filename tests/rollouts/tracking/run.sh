#!/usr/bin/env bash
# `make test-trackers`: the tests of this folder with the packages of all trackers, in .venvs/trackers (1.3 GB).
set -euo pipefail
cd "$(dirname "$0")/../../.."
venv=.venvs/trackers
edition=$(cksum < tests/rollouts/tracking/run.sh | cut -d' ' -f1)
if [ ! -f "$venv/.ready-$edition" ]; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        -e '.[wandb,mlflow,trackio,tensorboard]' pytest pytest-asyncio hypothesis
    touch "$venv/.ready-$edition"
fi
exec "$venv/bin/python" -m pytest tests/rollouts/tracking -v "$@"
