#!/usr/bin/env bash
# `make test-browser`: the tests of this folder, of the viewer's page in a headless Chromium.
set -euo pipefail
cd "$(dirname "$0")/../.."
bash tests/browser/install.sh
PYTHONPATH=.venvs/browser exec .venv/bin/python -m pytest tests/browser -v "$@"
