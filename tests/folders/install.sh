#!/usr/bin/env bash
# Harbor in an environment of its own, in .venvs/harbor: 380 MB. HARBOR_PYTHON names a Python 3.12 or newer.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -f .venvs/harbor/.installed ] && exit 0
for python in "${HARBOR_PYTHON:-}" python3.13 python3.12 python3 ~/.pyenv/versions/3.1[2-9].*/bin/python; do
    # A name may be a shim of pyenv that starts nothing.
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2> /dev/null && break || python=
done
[ -n "$python" ] || { echo "Harbor needs Python 3.12 or newer: set HARBOR_PYTHON" >&2; exit 1; }
"$python" -m venv --clear .venvs/harbor
# Harbor asks for a certifi that no index has, so its other requirements are installed one by one.
.venvs/harbor/bin/pip install --quiet --no-deps harbor==0.25.0
.venvs/harbor/bin/pip install --quiet certifi 'pydantic>=2.12' shortuuid typer requests pyyaml rich toml tenacity \
    python-dotenv 'litellm>=1.92' jinja2 dirhash packaging semver fastapi uvicorn 'pathspec>=1.0.3' supabase httpx filelock \
    platformdirs pyjwt jsonschema
.venvs/harbor/bin/harbor --version
touch .venvs/harbor/.installed
