#!/usr/bin/env bash
# `make test-foreign`: environments of other projects get what their own loops give them.
set -euo pipefail
cd "$(dirname "$0")/../.."
.venv/bin/python -m tests.foreign.install
exec .venv/bin/python -m pytest tests/foreign -n 0 -v -m foreign "$@"
