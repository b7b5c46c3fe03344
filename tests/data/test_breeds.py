import json

import numpy as np
import pytest

from cophenet.data.breeds import Entity13, Entity30, Living17, NonLiving26, breeds_classes, breeds_tree
from cophenet.data.registry import create_source
from data.pictures import fill
from support import SHARED, needs_shared

SOURCES = {source.name: source for source in (Living17, NonLiving26, Entity13, Entity30)}

# Coarse classes with their fine classes, as the paper's tables print them.
PAPER = {
    "living17": {
        "bird": "grouse, parrot",
        "amphibian": "salamander",
        "reptile, reptilian": "turtle, lizard, snake, serpent, ophidian",
        "arthropod": "spider, crab, beetle, butterfly",
        "mammal, mammalian": "dog, domestic dog, Canis familiaris, wolf, fox, domestic cat, house cat, "
        "Felis domesticus, Felis catus, bear, ape, monkey",
    },
    "nonliving26": {
        "structure, place": "dwelling, home, domicile, abode, habitation, dwelling house, fence, fencing, "
        "mercantile establishment, retail store, sales outlet, outlet, outbuilding, roof",
        "paraphernalia": "ball, bottle, digital computer, keyboard instrument, percussion instrument, "
        "percussive instrument, pot, stringed instrument, timepiece, timekeeper, horologe, wind instrument, "
        "wind",
        "food, nutrient": "squash",
        "apparel, toiletries": "bag, body armor, body armour, suit of armor, suit of armour, coat of mail, "
        "cataphract, coat, hat, chapeau, lid, skirt",
        "conveyance, transport": "boat, bus, autobus, coach, charabanc, double-decker, jitney, motorbus, "
        "motorcoach, omnibus, passenger vehicle, car, auto, automobile, machine, motorcar, ship, truck, "
        "motortruck",
        "furnishing": "chair",
    },
    "entity13": {
        "living thing, animate thing": "bird, reptile, reptilian, arthropod, mammal, mammalian",
        "non-living thing": "garment, accessory, accoutrement, accouterment, craft, equipment, furniture, "
        "piece of furniture, article of furniture, instrument, man-made structure, construction, "
        "wheeled vehicle, produce, green goods, green groceries, garden truck",
    },
    "entity30": {
        "living thing, animate thing": "serpentes, passerine, passeriform bird, saurian, arachnid, "
        "arachnoid, aquatic bird, crustacean, carnivore, insect, ungulate, hoofed mammal, primate, bony fish",
        "non-living thing": "barrier, building, edifice, electronic equipment, footwear, legwear, garment, "
        "headdress, headgear, home appliance, household appliance, kitchen utensil, measuring instrument, "
        "measuring system, measuring device, motor vehicle, automotive vehicle, musical instrument, "
        "instrument, neckwear, sports equipment, tableware, tool, vessel, watercraft, dish, vegetable, "
        "veggie, veg, fruit",
    },
}


@pytest.mark.parametrize("setting", SOURCES)
def test_the_papers_tables(setting):
    tree = breeds_tree(setting)
    printed = {
        tree.names[node]: ", ".join(
            name for name, above in zip(tree.classes, tree.ancestors("coarse"), strict=True) if above == node
        )
        for node in tree.nodes_at("coarse")
    }
    assert printed == PAPER[setting]


@pytest.mark.parametrize(
    ("setting", "fine", "mid", "coarse", "subclasses"),
    [
        ("living17", 17, 11, 5, 2),
        ("nonliving26", 26, 9, 6, 2),
        ("entity13", 13, 7, 2, 10),
        ("entity30", 30, 6, 2, 4),
    ],
)
def test_counts(setting, fine, mid, coarse, subclasses):
    classes = breeds_classes(setting)
    tree, deeper = breeds_tree(setting), breeds_tree(setting, mid=True)
    assert tree.num_classes == fine
    assert (len(tree.nodes_at("coarse")), len(deeper.nodes_at("mid"))) == (coarse, mid)
    assert tree.classes == deeper.classes == tuple(one["name"] for one in classes)
    assert deeper.merge_level("mid") == tree
    assert set(tree.condensed()) == {2.0, 4.0}
    used = [wnid for one in classes for wnid in one["source"] + one["target"]]
    assert len(used) == len(set(used)) == 2 * fine * subclasses
    assert all(len(one["source"]) == len(one["target"]) == subclasses for one in classes)


@needs_shared
@pytest.mark.parametrize("setting", SOURCES)
def test_the_facts_are_those_of_the_benchmark(setting):
    facts = json.loads((SHARED / "facts" / "breeds.json").read_text())["datasets"][setting]
    up = {level: str(edges) for level, edges in facts["levels_used_by_otcpcc"].items()}
    wanted = [
        {
            "name": one["name"],
            **{level: one["ancestors"][edges]["name"] for level, edges in up.items()},
            **{side: [sub["wnid"] for sub in one[side]] for side in ("source", "target")},
        }
        for one in facts["superclasses"]
    ]
    assert list(breeds_classes(setting)) == wanted
    # Names stand for nodes: no two groups of a level share one.
    deeper = breeds_tree(setting, mid=True)
    for level, edges in up.items():
        groups = facts["levels"][edges]["superclass_to_group"]
        labels = deeper.cut(level)[1]
        assert len(set(zip(groups, labels, strict=True))) == len(set(groups)) == len(set(labels))


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    """Of every class of Living-17 two images to train with and one to test."""
    root = tmp_path_factory.mktemp("imagenet")
    for one in breeds_classes("living17"):
        for wnid in one["source"] + one["target"]:
            fill(root / "train" / wnid, 2, wnid + "_{}.JPEG")
            fill(root / "val" / wnid, 1, "ILSVRC2012_val_0000000{}.JPEG")
    return root


def test_source_and_target_share_classes_and_differ_in_subclasses(imagenet):
    data = create_source("living17", size=16).load(imagenet)
    for part, each in (("train", 2), ("test", 1)):
        used = {}
        for domain, subclasses in (("source", 2), ("target", 2), ("full", 4)):
            samples = data.samples(part, domain)
            assert samples.tree == data.tree == breeds_tree("living17")
            assert samples.counts().tolist() == [subclasses * each] * 17
            used[domain] = {path.split("/")[-2] for path in samples.inputs.paths}
            for path, label in zip(samples.inputs.paths, samples.labels, strict=True):
                one = breeds_classes("living17")[label]
                sides = ("source", "target") if domain == "full" else (domain,)
                assert any(path.split("/")[-2] in one[side] for side in sides)
        assert not used["source"] & used["target"]
        assert used["source"] | used["target"] == used["full"]
    inputs, labels = data.samples("train", "target").take(np.array([0, 40]))
    assert inputs.shape == (2, 3, 16, 16)
    assert labels.tolist() == [0, 10]


def test_test_images_are_stretched_to_a_square_before_the_crop():
    crop = Living17().crop
    assert (crop.size, crop.resize) == (224, 256)
    assert crop.view(512, 256).box == (32, 16, 480, 240)


def test_mid_labels(imagenet):
    data = Living17(size=16, mid=True).load(imagenet)
    samples = data.samples("test", "source")
    assert samples.tree.level_names == ("coarse", "mid", "fine")
    assert len(set(samples.level_labels("mid"))) == 11
    assert len(set(samples.level_labels("coarse"))) == 5
    assert samples.labels.tolist() == Living17().load(imagenet).samples("test", "source").labels.tolist()


def test_what_is_missing_is_told(imagenet, tmp_path):
    assert all(needed.found for needed in Living17().requirements(imagenet))
    train, _ = NonLiving26().requirements(imagenet)
    assert train.path == imagenet / "train"
    assert not train.found
    assert "104 class folders of ImageNet, 104 missing: n0" in train.note
    assert not any(needed.found for needed in Entity30().requirements(None))
    with pytest.raises(FileNotFoundError, match=r"train is not complete for data 'nonliving26': .* missing"):
        NonLiving26().load(imagenet)
    with pytest.raises(FileNotFoundError, match=r"nowhere is not a folder; .*train/<wnid>"):
        Living17().load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="'living17' needs data_dir"):
        Living17().load(None)


def test_an_empty_class_folder(imagenet, tmp_path):
    (tmp_path / "val").symlink_to(imagenet / "val")
    for one in breeds_classes("living17"):
        for wnid in one["source"] + one["target"]:
            (tmp_path / "train" / wnid).mkdir(parents=True)
    data = Living17().load(tmp_path)
    with pytest.raises(ValueError, match=r"train/n\d+ is a class without images"):
        data.samples("train", "source")
    assert len(data.samples("test", "source")) == 34


def test_an_unknown_setting():
    with pytest.raises(ValueError, match="setting must be one of living17, nonliving26, entity13, entity30"):
        breeds_tree("living18")
