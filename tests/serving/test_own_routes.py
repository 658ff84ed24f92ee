"""Requests about a server are not those of a rollout."""

from __future__ import annotations

import pytest

from nemo_gym.serving.own_routes import is_about_server


@pytest.mark.parametrize("path", ["/", "/health", "/livez", "/metrics", "/_ng/stats", "/_ng/sessions"])
def test_health_figures_and_sessions_are_about_the_server(path: str) -> None:
    assert is_about_server({"type": "http", "method": "GET", "path": path})


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/metrics"), ("POST", "/verify"), ("GET", "/healthy"), ("GET", "/_ng"), ("POST", "/run")],
)
def test_other_routes_are_those_of_rollouts(method: str, path: str) -> None:
    assert not is_about_server({"type": "http", "method": method, "path": path})


def test_a_websocket_has_no_method() -> None:
    assert not is_about_server({"type": "websocket", "path": "/metrics"})
