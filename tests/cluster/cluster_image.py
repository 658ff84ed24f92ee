"""The image of `examples/kubernetes`, and a collection in its containers, by the command of the Job.

No registry is reached: a Debian root stands for `python:3.12-slim`, so the Python is Debian's. A program that asks
podman stands for `kubectl`. The containers have addresses of their own, and the rights that the manifests give to pods.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from tests.cluster.containers import Podman, debian_with_python, podman, why_not
from tests.docs.test_kubernetes_recipe import FOLDER, configuration, container, node_names

IMAGE = "registry.example/gym:1"
POD = ("--user=1000:1000", "--cap-drop=all", "--security-opt=no-new-privileges")
KUBECTL = """#!/usr/bin/env python3
import json, os, socket, sys, threading

connection = socket.socket(socket.AF_UNIX)
connection.connect("/run/kubectl/socket")
connection.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")

def send():
    while chunk := os.read(0, 65536):
        connection.sendall(chunk)
    connection.shutdown(socket.SHUT_WR)

threading.Thread(target=send, daemon=True).start()
while chunk := connection.recv(65536):
    os.write(1, chunk)
"""
"""It hands its words and its input to `answers`, and prints the output of the program in the pod."""

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def base_images(made: Podman, folder: Path) -> None:
    """Make the images that the Dockerfile begins with."""
    root, kubectl = folder / "root", folder / "kubectl"
    debian_with_python(root)
    made.import_root(root, "localhost/python:3.12-slim")
    shutil.rmtree(root)
    program = kubectl / "bin" / "kubectl"
    program.parent.mkdir(parents=True)
    program.write_text(KUBECTL)
    program.chmod(0o755)
    made.import_root(kubectl, "registry.k8s.io/kubectl:v1.34.1")


@contextmanager
def answers(made: Podman, path: Path) -> Iterator[list[str]]:
    """Start programs in containers, as `kubectl exec` does. Yields the names of the pods that were asked for."""
    asked: list[str] = []
    programs: list[subprocess.Popen[bytes]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # the block has ended
                    return
                with connection:
                    line = b""
                    while not line.endswith(b"\n"):  # its input follows, and is the program's
                        line += connection.recv(1)
                    verb, stdin, pod, end, *words = json.loads(line)
                    assert (verb, stdin, end) == ("exec", "--stdin", "--")
                    asked.append(pod)
                    command = made.words("exec", "--interactive", pod, *words)
                    pipe = connection.fileno()
                    programs.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield asked
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()
        for program in programs:
            program.wait(60)


def test_the_dockerfile_builds_and_a_collection_runs_in_its_containers(tmp_path: Path) -> None:
    with podman() as made:
        base_images(made, tmp_path)
        made.build(FOLDER / "Dockerfile", PARENT_DIR, IMAGE)
        check_image(made)
        results, sockets = tmp_path / "results", tmp_path / "sockets"
        for folder in (results, sockets):
            folder.mkdir()
            folder.chmod(0o777)
        (results / "env.yaml").write_text("policy_api_key: sk-from-the-secret\n")
        stub = ("python3", "-m", "nemo_gym.cli.mock_engine", "+host=0.0.0.0", "+port=8000")
        engine = made.start("vllm", IMAGE, *stub, f"+model={configuration()['policy_model_name']}")
        for name in node_names():
            made.start(name, *POD, f"--add-host=vllm:{engine}", IMAGE, *container("StatefulSet")["command"])
        with answers(made, sockets / "socket") as asked:
            collect(made, engine, results, sockets)
        assert sorted(asked) == node_names()
    rows = [json.loads(line) for line in (results / "rollouts.jsonl").read_text().splitlines()]
    assert rows
    assert {row["_ng_outcome"] for row in rows} == {"completed"}


def check_image(made: Podman) -> None:
    """The image has the programs of the gym and `kubectl`, and neither the sources nor a way to write to itself."""
    script = "id -u; pwd; command -v kubectl; command -v ng_run; ls /src; touch /usr/local/bin/written"
    done = subprocess.run(
        made.in_front(IMAGE, "sh", "-c", script), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["1000", "/home/gym", "/usr/local/bin/kubectl", "/usr/local/bin/ng_run"]
    assert "Permission denied" in done.stderr
    tell = "from nemo_gym.processes.cpus import usable_cpus; print(usable_cpus())"
    limited = made.in_front("--cpus=0.5", IMAGE, "python", "-c", tell)
    assert subprocess.check_output(limited, text=True, timeout=120) == "0.5\n"


def collect(made: Podman, engine: str, results: Path, sockets: Path) -> None:
    """Run the command of the Job, in a container with its files at its paths."""
    job = container("Job")
    script = f'exec {" ".join(job["command"])} "$@" +advertised_host=$(hostname -i)'
    words = [word for word in job["args"] if "POD_IP" not in word]
    mounted = {FOLDER / "gym.yaml": "/etc/gym/gym.yaml:ro", results: "/results", sockets: "/run/kubectl"}
    done = subprocess.run(
        made.in_front(
            *POD,
            *(f"--volume={path}:{where}" for path, where in mounted.items()),
            f"--add-host=vllm:{engine}",
            f"--workdir={job['workingDir']}",
            IMAGE,
            *("sh", "-c", script, "sh", *words),
        ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
