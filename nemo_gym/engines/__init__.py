"""Engines: the base classes of model servers, and the client for the inference engine behind them.

A model server answers the Responses API, Chat Completions and Messages. The client chooses replicas, retries, and
reports engine errors without secrets. The room builds on `serving`, `transport` and `responses`.

- `engine`: the client for an engine with one or several replicas
- `record`: the calls that rollouts made, each recorded once
- `gateway`: opened rollouts, and the layer through which all calls pass
- `policy`: the version of the policy that an engine serves
- `tokens`: exact prompts and token records of an engine's calls
- `engine_model`: a model server on plain JSON, with streaming and recording
- `model`: the typed base class that environments subclass
- `responses_upstream`: requests to upstreams that support the Responses API
"""
