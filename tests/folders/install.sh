#!/usr/bin/env bash
# Harbor in an environment of its own, in .venvs/harbor. HARBOR_PYTHON names a Python 3.12 or newer.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -x .venvs/harbor/bin/harbor ] && exit 0
python=${HARBOR_PYTHON:-$(command -v python3.13 || command -v python3.12 || ls ~/.pyenv/versions/3.1[2-9].*/bin/python 2>/dev/null | head -1 || true)}
[ -n "$python" ] || { echo "Harbor needs Python 3.12 or newer: set HARBOR_PYTHON"; exit 0; }
"$python" -m venv .venvs/harbor
# Harbor asks for a certifi that no index has, so its other requirements are installed one by one.
.venvs/harbor/bin/pip install --quiet --no-deps harbor==0.25.0
.venvs/harbor/bin/pip install --quiet certifi 'pydantic>=2.12' shortuuid typer requests pyyaml rich toml tenacity \
    python-dotenv 'litellm>=1.92' jinja2 dirhash packaging semver fastapi uvicorn 'pathspec>=1.0.3' supabase httpx filelock \
    platformdirs pyjwt jsonschema
