import numpy as np
import pytest

from cophenet.data.inat import RANKS, INat21Mini, lineage, taxonomy_paths
from cophenet.data.registry import create_source
from data.pictures import fill

# The paper's table: phylum, source classes, target classes; then two phyla that its rule leaves out.
PAPER = {
    "Arthropoda": ("Diplopoda Hexanauplia Insecta Malacostraca Merostomata", "Arachnida Chilopoda"),
    "Chordata": ("Ascidiacea Aves Elasmobranchii Mammalia Reptilia", "Actinopterygii Amphibia"),
    "Cnidaria": ("Hydrozoa Scyphozoa", "Anthozoa"),
    "Echinodermata": ("Echinoidea Holothuroidea Ophiuroidea", "Asteroidea"),
    "Mollusca": ("Cephalopoda Gastropoda Polyplacophora", "Bivalvia"),
    "Ascomycota": (
        "Lecanoromycetes Leotiomycetes Pezizomycetes Sordariomycetes",
        "Arthoniomycetes Dothideomycetes",
    ),
    "Basidiomycota": ("Dacrymycetes Pucciniomycetes Tremellomycetes", "Agaricomycetes"),
    "Bryophyta": ("Polytrichopsida Sphagnopsida", "Bryopsida"),
    "Tracheophyta": (
        "Liliopsida Lycopodiopsida Magnoliopsida Pinopsida Polypodiopsida",
        "Cycadopsida Gnetopsida",
    ),
}
LEFT_OUT = {"Annelida": ("Clitellata", "Polychaeta"), "Rhodophyta": ("Florideophyceae",)}


def species(phylum, name, number=0):
    return f"{number:05d}_Kingdom_{phylum}_{name}_Order_Family_Genus_species{number}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two species of every class, with two images each to train with and one to test."""
    root = tmp_path_factory.mktemp("inat")
    number = 0
    for phylum, names in {**{key: " ".join(both).split() for key, both in PAPER.items()}, **LEFT_OUT}.items():
        for name in names:
            for _ in range(2):
                fill(root / "train_mini" / species(phylum, name, number), 2)
                fill(root / "val" / species(phylum, name, number), 1)
                number += 1
    return root


def by_parent(tree):
    table = {}
    for leaf in tree.leaves:
        phylum, name = tree.path(leaf)
        table.setdefault(phylum, []).append(name)
    return {phylum: " ".join(sorted(names)) for phylum, names in table.items()}


def test_the_papers_table(folder):
    data = create_source("inat21-mini", size=16).load(folder)
    assert data.tree.level_names == ("phylum", "class")
    assert (data.tree.num_classes, len(data.tree.nodes_at("phylum"))) == (48, 11)
    for side, domain in enumerate(("source", "target")):
        assert by_parent(data.samples("train", domain).tree) == {
            key: both[side] for key, both in PAPER.items()
        }


def test_left_out_phyla_are_in_neither_part_of_either_domain(folder):
    data = INat21Mini(size=16).load(folder)
    for part, each in (("train", 4), ("test", 2)):
        assert data.samples(part).counts().tolist() == [each] * 48
        for domain, classes in (("source", 32), ("target", 13)):
            samples = data.samples(part, domain)
            assert samples.counts().tolist() == [each] * classes
            for row, label in zip(samples.rows, samples.labels, strict=True):
                ranks = lineage(samples.inputs.paths[row].split("/")[-2])
                assert ranks[2] == samples.tree.classes[label]
                assert ranks[1] not in LEFT_OUT
    assert data.samples("test", "target").take(np.array([3]))[0].shape == (1, 3, 16, 16)


def test_other_levels(folder):
    data = INat21Mini(levels=["class", "species"], size=16).load(folder)
    assert data.tree.level_names == ("class", "species")
    assert data.tree.num_classes == 96
    assert data.tree.classes[0].startswith("Genus species")
    assert INat21Mini(levels=("class",)).load(folder).tree.height == 1


def test_a_name_of_two_groups_becomes_its_lineage():
    bird = lineage("1_Animalia_Chordata_Aves_Passeriformes_Prunellidae_Prunella_modularis")
    mint = lineage("2_Plantae_Tracheophyta_Magnoliopsida_Lamiales_Lamiaceae_Prunella_vulgaris")
    oak = lineage("3_Plantae_Tracheophyta_Magnoliopsida_Fagales_Fagaceae_Quercus_robur")
    paths = taxonomy_paths([bird, mint, oak], ["genus", "species"])
    assert paths[oak] == ("Quercus", "Quercus robur")
    assert paths[mint] == (
        "Plantae/Tracheophyta/Magnoliopsida/Lamiales/Lamiaceae/Prunella",
        "Prunella vulgaris",
    )
    assert paths[bird][0] != paths[mint][0]


def test_two_classes_of_one_name(tmp_path):
    for part in ("train_mini", "val"):
        for number, (phylum, name) in enumerate([("A", "Same"), ("A", "Own"), ("B", "Same")]):
            fill(tmp_path / part / species(phylum, name, number), 1)
    tree = INat21Mini().load(tmp_path).tree
    assert set(tree.classes) == {"Own", "Kingdom/A/Same", "Kingdom/B/Same"}


def test_nothing_to_split_is_told_when_asked(tmp_path):
    for part in ("train_mini", "val"):
        for number, name in enumerate(["One", "Two"]):
            fill(tmp_path / part / species("A", name, number), 1)
    data = INat21Mini().load(tmp_path)
    assert len(data.samples("train")) == 2
    with pytest.raises(ValueError, match="no coarse class with a class on each side"):
        data.samples("train", "source")


def test_wrong_folders(folder, tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"train_mini is missing; data 'inat21-mini' needs train_mini/"
    ):
        INat21Mini().load(tmp_path)
    fill(tmp_path / "train_mini" / "00000_Animalia_Chordata_Aves", 1)
    with pytest.raises(
        ValueError, match=r"train_mini: folder name '00000_Animalia_Chordata_Aves' must be eight"
    ):
        INat21Mini().load(tmp_path)
    (tmp_path / "val").mkdir()
    fill(tmp_path / "other" / "train_mini" / species("A", "One"), 1)
    (tmp_path / "other" / "val").mkdir()
    with pytest.raises(ValueError, match=r"val is empty; it must hold one folder for each species"):
        INat21Mini().load(tmp_path / "other")
    fill(tmp_path / "other" / "val" / species("A", "Two"), 1)
    with pytest.raises(ValueError, match=r"'A/One' is in .*train_mini but not in .*val; 2 classes"):
        INat21Mini().load(tmp_path / "other")
    assert [needed.found for needed in INat21Mini().requirements(folder)] == [True, True]
    assert [needed.found for needed in INat21Mini().requirements(None)] == [False, False]


def test_an_empty_species_and_a_single_class(tmp_path):
    for part in ("train_mini", "val"):
        fill(tmp_path / part / species("A", "One"), 1)
    with pytest.raises(ValueError, match="'inat21-mini' needs at least two classes, found only 'One'"):
        INat21Mini().load(tmp_path)
    for part in ("train_mini", "val"):
        (tmp_path / part / species("A", "Two", 1)).mkdir()
    with pytest.raises(ValueError, match=r"00001_Kingdom_A_Two_\w+ is a class without images"):
        INat21Mini().load(tmp_path).samples("train")


def test_wrong_levels():
    for levels, message in (
        (["phylum", "clas"], "levels must be one of kingdom, .*did you mean 'class'"),
        (["class", "phylum"], r"from coarse to fine .* got \['class', 'phylum'\]"),
        (["class", "class"], "from coarse to fine"),
        ([], "list of ranks"),
        ("class", "list of ranks"),
    ):
        with pytest.raises(ValueError, match=message):
            INat21Mini(levels=levels)
    assert INat21Mini(levels=RANKS).levels == RANKS
