import numpy as np
import pytest

from cophenet.tree import Hierarchy

from .trees import CIFAR100, animals, cifar100

INAT = {
    "Arthropoda": "Diplopoda, Hexanauplia, Insecta, Malacostraca, Merostomata | Arachnida, Chilopoda",
    "Chordata": "Ascidiacea, Aves, Elasmobranchii, Mammalia, Reptilia | Actinopterygii, Amphibia",
    "Cnidaria": "Hydrozoa, Scyphozoa | Anthozoa",
    "Echinodermata": "Echinoidea, Holothuroidea, Ophiuroidea | Asteroidea",
    "Mollusca": "Cephalopoda, Gastropoda, Polyplacophora | Bivalvia",
    "Ascomycota": "Lecanoromycetes, Leotiomycetes, Pezizomycetes, Sordariomycetes"
    " | Arthoniomycetes, Dothideomycetes",
    "Basidiomycota": "Dacrymycetes, Pucciniomycetes, Tremellomycetes | Agaricomycetes",
    "Bryophyta": "Polytrichopsida, Sphagnopsida | Bryopsida",
    "Tracheophyta": "Liliopsida, Lycopodiopsida, Magnoliopsida, Pinopsida, Polypodiopsida"
    " | Cycadopsida, Gnetopsida",
}


def test_cifar100():
    tree = cifar100()
    split = tree.source_target_split()
    assert (split.source.num_classes, split.target.num_classes) == (60, 40)
    for coarse, target in {
        "aquatic_mammals": {"beaver", "dolphin"},
        "fish": {"aquarium_fish", "flatfish"},
        "household_electrical_devices": {"clock", "keyboard"},
        "trees": {"maple_tree", "oak_tree"},
        "vehicles_2": {"lawn_mower", "rocket"},
    }.items():
        assert set(CIFAR100[coarse]) & set(split.target.classes) == target
        assert set(CIFAR100[coarse]) & set(split.source.classes) == set(CIFAR100[coarse]) - target
    assert set(split.source.cut("coarse")[0].classes) == set(split.target.cut("coarse")[0].classes)
    assert list(split.source.classes) == sorted(split.source.classes)


def test_inaturalist():
    sides = {coarse: [side.split(", ") for side in text.split(" | ")] for coarse, text in INAT.items()}
    nested = {coarse: sorted(source + target) for coarse, (source, target) in sides.items()}
    # Two children: int(0.4 * 2) = 0, so the phylum is left out.
    nested["Annelida"] = ["Clitellata", "Polychaeta"]
    split = Hierarchy.from_nested(nested).source_target_split(0.4)
    assert set(split.source.classes) == {name for source, _ in sides.values() for name in source}
    assert set(split.target.classes) == {name for _, target in sides.values() for name in target}


def test_label_maps():
    tree = cifar100()
    split = tree.source_target_split()
    for half, labels in ((split.source, split.source_labels), (split.target, split.target_labels)):
        kept = np.flatnonzero(labels >= 0)
        assert [half.classes[labels[old]] for old in kept] == [tree.classes[old] for old in kept]
        assert len(kept) == half.num_classes
        np.testing.assert_array_equal(half.distances(labels[kept]), tree.distances(kept))
    assert ((split.source_labels >= 0) ^ (split.target_labels >= 0)).all()


def test_level_moves_whole_subtrees():
    tree = Hierarchy.from_nested(
        {"a": {"p": ["p1", "p2"], "q": ["q1"], "r": ["r1"]}, "b": {"s": ["s1"]}, "c": None}
    )
    split = tree.source_target_split(0.4, level=1)
    assert split.target.classes == ("p1", "p2")
    assert split.source.classes == ("q1", "r1")


def test_lists():
    tree = animals()
    split = tree.source_target_split(source=["dog", "car"], target=["cat"])
    assert split.source.classes == ("dog", "car")
    assert split.source_labels.tolist() == [-1, 1, 0, -1]
    assert split.target_labels.tolist() == [0, -1, -1, -1]


def test_fraction_without_exact_float():
    tree = Hierarchy.from_nested({"a": [f"{number:03d}" for number in range(100)]})
    assert tree.source_target_split(0.29).target.num_classes == 29


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fraction": 0.0}, "between 0 and 1"),
        ({"fraction": "all"}, "between 0 and 1"),
        ({"fraction": "0.4"}, "between 0 and 1, got '0.4'"),
        ({"fraction": True}, "between 0 and 1, got True"),
        ({"fraction": 0.4, "level": True}, "level must be a depth"),
        ({"fraction": 1.0}, "between 0 and 1"),
        ({"fraction": float("nan")}, "between 0 and 1"),
        ({"fraction": 0.4}, "leaves no coarse class"),
        ({"source": ["cat"]}, "given together"),
        ({"source": ["cat"], "target": ["cat", "dog"]}, "must not share classes, both hold 'cat'"),
        ({"source": ["cat"], "target": ["cow"]}, "unknown class 'cow'"),
        ({"source": ["cat"], "target": []}, "classes is empty"),
        ({"source": ["cat"], "target": ["dog"], "level": 1}, "cannot be given with source"),
        ({"level": "x"}, "level must be one of"),
    ],
)
def test_bad_splits(options, message):
    with pytest.raises(ValueError, match=message):
        animals().source_target_split(**options)
