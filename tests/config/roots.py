"""A root with environments, benchmarks, servers and models of its own."""

from __future__ import annotations

from pathlib import Path

SERVER = """\
{name}:
  resources_servers:
    {name}:
      entrypoint: app.py
      domain: math
      description: The server {name}
"""
AGENT = """\
{name}_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {{type: resources_servers, name: {name}}}
      model_server: {{type: responses_api_models, name: policy_model}}
      datasets:
      - {{name: rows, type: example, jsonl_fpath: rows.jsonl}}
"""


def write_root(root: Path, *components: str) -> Path:
    """Write components, given as `<kind>/<name>` or as the path of a configuration, and return the root."""
    for component in components:
        folder = root / component
        name = folder.name if folder.suffix != ".yaml" else folder.stem
        file = folder if folder.suffix == ".yaml" else folder / "configs" / f"{folder.name}.yaml"
        if component.startswith(("environments/", "benchmarks/")) and folder.suffix != ".yaml":
            file = folder / "config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((SERVER + AGENT).format(name=name))
    return root
