#!/usr/bin/env bash
# `make test-folders`: the loader, the linter and the rewards of task folders are those of Harbor's own tools.
set -euo pipefail
cd "$(dirname "$0")/../.."
bash tests/folders/install.sh
exec .venv/bin/python -m pytest tests/folders -n 0 -v -m folders -o faulthandler_timeout=0 "$@"
