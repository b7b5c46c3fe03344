"""Members of a room by name: in its files, and in packages that declare entry points."""

import sys

import pytest

from cophenet._common.registry import Registry, declared_names

SHAPES = """
from {room} import shapes, register

@register
class Square:
    name = "square"
"""
ROOM = """
from cophenet._common.registry import Registry

shapes = Registry("shape", __name__, "toy.shapes")

def register(cls):
    return shapes.register(cls.name)(cls)
"""


def write_package(folder, name, entries):
    """What pip leaves of an installed package: its metadata with entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{entry} = {target}" for entry, target in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[toy.shapes]", *lines, ""]))


@pytest.fixture
def room(tmp_path, monkeypatch, request):
    """A package of one file beside its `__init__`, importable under a name of its own."""
    name = f"room_{abs(hash(request.node.name))}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text(ROOM)
    (folder / "square.py").write_text(SHAPES.format(room=name))
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        del sys.modules[module]


def shapes_of(room) -> Registry:
    return __import__(room).shapes


def test_a_file_in_the_room_is_enough(room):
    assert shapes_of(room).names() == ("square",)
    assert shapes_of(room).get("square").__module__ == f"{room}.square"
    with pytest.raises(ValueError, match="shape must be one of square, got 'sqare'; did you mean 'square'"):
        shapes_of(room).get("sqare")
    with pytest.raises(ValueError, match="a shape named 'square' exists already"):
        shapes_of(room).register("square")(object)


def test_packages_are_listed_and_loaded_when_asked_for(room, tmp_path):
    (tmp_path / "round_shapes.py").write_text("class Circle: ...\n")
    write_package(tmp_path, "round-shapes", {"circle": "round_shapes:Circle"})
    assert declared_names(room, "toy.shapes") == ["square", "circle"]
    assert shapes_of(room).names() == ("square", "circle")
    assert "round_shapes" not in sys.modules
    assert shapes_of(room).get("circle").__name__ == "Circle"
    assert set(shapes_of(room).members()) == {"square", "circle"}
    del sys.modules["round_shapes"]


def test_a_broken_package_is_named_and_leaves_the_others(room, tmp_path):
    (tmp_path / "torn_shapes.py").write_text("import no_such_module\n")
    write_package(tmp_path, "torn-shapes", {"torn": "torn_shapes:Torn"})
    shapes = shapes_of(room)
    assert shapes.names() == ("square", "torn")
    message = (
        r"shape 'torn' of torn-shapes \(torn_shapes:Torn\) cannot be loaded: "
        "ModuleNotFoundError: No module named 'no_such_module'"
    )
    with pytest.raises(ValueError, match=message):
        shapes.get("torn")
    with pytest.warns(UserWarning, match=message):
        assert set(shapes.members()) == {"square"}


def test_a_name_in_use_stays_whose_it_is(room, tmp_path):
    write_package(tmp_path, "other-shapes", {"square": "other_shapes:Square"})
    with pytest.warns(UserWarning, match=r"shape 'square' of other-shapes .* is ignored: the name is in use"):
        assert shapes_of(room).names() == ("square",)
    assert shapes_of(room).get("square").__module__ == f"{room}.square"


def test_what_cannot_be_a_member_is_refused(room, tmp_path):
    def check(name, member):
        if not isinstance(member, type):
            raise ValueError(f"{name} is no class")

    (tmp_path / "number_shapes.py").write_text("number = 3\n")
    write_package(tmp_path, "number-shapes", {"number": "number_shapes:number"})
    shapes = shapes_of(room)
    shapes.check = check
    with pytest.raises(
        ValueError, match=r"number-shapes .* cannot be loaded: ValueError: number is no class"
    ):
        shapes.get("number")
