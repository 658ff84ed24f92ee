#!/usr/bin/env bash
# `make test-harnesses`: known agents, unchanged and offline, play against the engine stub.
set -euo pipefail
cd "$(dirname "$0")/../.."
bash tests/harnesses/install.sh
exec .venv/bin/python -m pytest tests/harnesses -n 0 -v "$@"
