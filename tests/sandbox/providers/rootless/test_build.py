"""Images made of a Dockerfile. The base system of these tests has the programs of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.providers.rootless import build
from nemo_gym.sandbox.providers.rootless.build import BuildOptions, ImageError, build_image, check_dockerfile
from nemo_gym.sandbox.providers.rootless.debian import name_base
from nemo_gym.sandbox.providers.rootless.launch import SandboxShape
from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider
from tests.sandbox.rootless_images import READABLE, host_provider, needs_rootless, write_host_layer

OFFLINE = BuildOptions()


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[RootlessProvider]:
    def shape(layers: tuple[str, ...], *, has_network: bool = False) -> SandboxShape:
        return SandboxShape(layers, [Path(path) for path in READABLE])

    async def put_none(*_: object) -> None:
        """The folder of the stand-ins is read-only here."""

    monkeypatch.setattr(build, "SandboxShape", shape)
    monkeypatch.setattr(build, "_put_installers", put_none)
    with host_provider() as made:
        write_host_layer(made, name_base([]))
        yield made


def write(folder: Path, dockerfile: str, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(dockerfile)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@needs_rootless
async def test_lines_are_applied_once_and_in_order(provider: RootlessProvider, tmp_path: Path) -> None:
    lines = [
        "FROM ubuntu:22.04",
        "ENV WHO=me",
        "WORKDIR /app",
        "COPY note data/",
        "COPY note .",
        "COPY note etc/x",
    ]
    text = "\n".join([*lines, 'RUN echo "$WHO $PWD" > who && cat data/note note etc/x >> who'])
    folder = write(tmp_path / "context", text, note="copied\n")
    image = await build_image(provider, folder, OFFLINE)
    found = provider.store.find(image)
    assert found is not None
    assert (found.workdir, found.env["WHO"], len(found.layers)) == ("/app", "me", 6)
    assert (
        provider.store.layer(found.layers[-1]) / "app" / "who"
    ).read_text() == "me /app\n" + 3 * "copied\n"
    layers = {path.name: path.stat().st_ino for path in (provider.store.folder / "layers").iterdir()}
    assert await build_image(provider, folder, OFFLINE) == image
    assert layers == {path.name: path.stat().st_ino for path in (provider.store.folder / "layers").iterdir()}
    (folder / "note").write_text("changed\n")
    assert await build_image(provider, folder, OFFLINE) != image


@needs_rootless
@pytest.mark.parametrize("line", ["ENV A=2", "USER worker", 'ENTRYPOINT ["run"]', "WORKDIR /tmp"])
async def test_images_that_differ_after_their_last_layer_are_two(
    line: str, provider: RootlessProvider, tmp_path: Path
) -> None:
    texts = {"one": "FROM debian\nRUN touch /x\nENV A=1\n", "two": f"FROM debian\nRUN touch /x\n{line}\n"}
    images = [
        await build_image(provider, write(tmp_path / name, text), OFFLINE) for name, text in texts.items()
    ]
    assert len({*images}) == 2
    first = provider.store.find(images[0])
    assert first is not None
    assert (first.env["A"], first.user, first.entrypoint, first.workdir) == ("1", None, (), "/")


@needs_rootless
async def test_a_layer_has_only_what_its_line_changed(provider: RootlessProvider, tmp_path: Path) -> None:
    folder = write(tmp_path / "context", "FROM debian\nRUN touch /one && rm /etc/passwd\nRUN ls / > /two")
    found = provider.store.find(await build_image(provider, folder, OFFLINE))
    assert found is not None
    assert "one" in (provider.store.layer(found.layers[-1]) / "two").read_text()
    assert not (provider.store.layer(found.layers[-1]) / "one").exists()


@needs_rootless
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("FROM debian\nRUN echo why >&2; exit 7", "line 2: 'echo why >&2; exit 7' ended with status 7: why"),
        ("FROM debian\nCOPY missing /x", "line 2: 'missing' is not in the folder"),
        ("FROM debian\nCOPY ../secret /x", "line 2: '../secret' lies outside"),
        ("FROM debian\nCOPY link /x", "line 2: 'link' leads outside"),
        ("FROM alpine", "FROM alpine: the base system is Debian"),
        (
            "FROM debian\nRUN mkdir -p /.nemo_gym && echo 'apt: gcc' > /.nemo_gym/missing",
            "are missing: apt: gcc",
        ),
    ],
)
async def test_a_line_that_fails_is_named(
    text: str, named: str, provider: RootlessProvider, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("x")
    folder = write(tmp_path / "context", text)
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ImageError) as raised:
        await build_image(provider, folder, OFFLINE)
    assert named in str(raised.value)


async def test_without_a_base_system_the_remedy_installs_one(tmp_path: Path) -> None:
    folder = write(tmp_path / "context", "FROM debian")
    with pytest.raises(ConfigError, match="not installed") as raised:
        await build_image(RootlessProvider(store=str(tmp_path / "store")), folder, OFFLINE)
    assert "gym env prefetch" in (raised.value.failure.remedy or "")


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("FROM ubuntu:22.04\nRUN x", []),
        ("ARG B=debian\nFROM $B", []),
        ("FROM python:3.12", ["FROM python:3.12: the base system is Debian, which stands for"]),
        ("FROM debian\nSHELL x", ["line 2: the instruction SHELL"]),
        ("FROM debian\nARG N=here\nENV E=.txt\nCOPY $N$E he*.txt . /x/\n", []),
        (
            "FROM debian\nENV N=gone\nCOPY here.txt $N /x/\nADD ../up *.gone /x\nCOPY 'a b\n",
            ["line 3: 'gone' is not in the folder", "line 4: '../up' lies outside", "line 5: No closing"],
        ),
        ("FROM debian\nCOPY here.txt\n", ["line 2: COPY needs a source and a destination"]),
    ],
)
def test_a_dockerfile_is_judged_before_anything_is_made(
    text: str, problems: list[str], tmp_path: Path
) -> None:
    folder = write(tmp_path / "context", text)
    (folder / "here.txt").touch()
    found = check_dockerfile(folder)
    assert len(found) == len(problems)
    assert all(said.startswith(problem) for said, problem in zip(found, problems, strict=True))


@needs_rootless
async def test_a_line_with_network_trusts_what_this_machine_trusts(
    provider: RootlessProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trusted.crt").write_text("an authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.crt"))
    folder = write(tmp_path / "net", 'FROM debian\nRUN cat "$PIP_CERT" "$SSL_CERT_FILE" > /root/seen\n')

    def shape(layers: tuple[str, ...], *, has_network: bool = False) -> SandboxShape:
        return SandboxShape(layers, [Path(path) for path in READABLE], has_network=has_network)

    monkeypatch.setattr(build, "SandboxShape", shape)
    image = await build_image(provider, folder, BuildOptions(has_network=True))
    made = provider.store.find(image)
    assert made is not None
    layer = provider.store.layer(made.layers[-1])
    assert (layer / "root" / "seen").read_text() == "an authority" * 2
    assert made.env.keys() == {"PATH", "PIP_BREAK_SYSTEM_PACKAGES"}
