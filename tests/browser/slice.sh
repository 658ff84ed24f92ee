#!/usr/bin/env bash
# A slice of `make test-browser` for continuous integration: the built page is that of the source, the page's own tests
# pass, and the pages of small runs work in Chromium. The slice names a part that the machine cannot run, and goes on.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' 2> /dev/null; then
    echo "not checked: the built page and its source, which need Node 20"
elif ! npm ping --prefix viewer > /dev/null 2>&1; then
    echo "not checked: the built page and its source, which need npm's registry"
else
    npm ci --prefix viewer --no-audit --no-fund
    npm run --prefix viewer test
    built=$(mktemp -d)
    npm run --prefix viewer build -- --outDir "$built" --emptyOutDir --logLevel warn
    diff -r "$built" nemo_gym/viewer/page || {
        echo "nemo_gym/viewer/page is not the build of viewer/: run \`make page\` and commit it" >&2
        exit 1
    }
    rm -r "$built"
fi

if ! command -v chromium > /dev/null; then
    echo "not checked: the pages in a browser, which need Chromium"
    exit
fi
bash tests/browser/install.sh
PYTHONPATH=.venvs/browser .venv/bin/python -m pytest -q \
    tests/browser/test_single_files.py \
    tests/browser/test_live.py::test_new_rows_appear_and_the_view_stays \
    tests/browser/test_hostile.py::test_a_filter_from_a_link_is_text \
    tests/browser/test_pages.py::test_tokens_of_every_position
