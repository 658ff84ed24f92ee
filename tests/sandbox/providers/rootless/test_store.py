"""Images and sandboxes on the disk."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.sandbox.providers.rootless.store import Image, ImageStore


def test_an_image_is_found_only_with_all_its_layers(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "store")
    content = Image(("one", "two"), "debian", {"A": "1"}, "/app", "worker", ("run",))
    store.add("org/image:1", content)
    assert store.find("org/image:1") is None
    for layer in content.layers:
        store.layer(layer).mkdir()
    assert store.find("org/image:1") == content
    store.layer("two").rmdir()
    assert store.find("org/image:1") is None


def test_a_store_without_a_layer_is_empty(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "store")
    assert store.is_empty
    store.new_sandbox().remove()
    assert store.is_empty
    store.layer("debian").mkdir()
    assert not store.is_empty


def test_the_folders_of_killed_gyms_are_deleted_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "store")
    live = store.new_sandbox()
    dead = tmp_path / "store" / "sandboxes" / "dead"
    (dead / "upper").mkdir(parents=True)
    other = store.new_sandbox()
    assert live.upper.is_dir()
    assert not dead.exists()
    for each in (live, other):
        each.remove()
    assert list((tmp_path / "store" / "sandboxes").iterdir()) == []


def test_a_layer_that_another_gym_made_meanwhile_stays(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "store")
    store.prepare()
    for name in ("first", "second"):
        (tmp_path / "store" / name).mkdir()
        (tmp_path / "store" / name / name).touch()
        store.keep_layer("layer", tmp_path / "store" / name)
    assert [path.name for path in store.layer("layer").iterdir()] == ["first"]
