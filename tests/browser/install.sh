#!/usr/bin/env bash
# Installs Playwright into .venvs/browser, beside the packages of .venv, and axe-core into viewer/node_modules. The
# browser is the system's Chromium: nothing else is downloaded.
set -euo pipefail
cd "$(dirname "$0")/../.."
edition=$(cksum < tests/browser/install.sh | cut -d' ' -f1)
folder=.venvs/browser
playwright="playwright==1.61.*"

if ! command -v chromium > /dev/null; then
    echo "The tests of the viewer's page need Chromium: apt-get install chromium" >&2
    exit 2
fi
if [ ! -f "$folder/.ready-$edition" ]; then
    rm -rf "$folder"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$folder" "$playwright"
    touch "$folder/.ready-$edition"
fi
if [ ! -f viewer/node_modules/axe-core/axe.min.js ]; then
    npm ci --prefix viewer --no-audit --no-fund
fi
