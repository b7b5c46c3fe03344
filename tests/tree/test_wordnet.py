"""Trees of WordNet's nouns: a made-up dictionary, and the classes of ImageNet."""

from pathlib import Path

import numpy as np
import pytest

from cophenet import Hierarchy
from cophenet.tree.wordnet import WordNet, _imagenet

# Words, and positions of hypernyms in this list.
NOUNS = [
    (["entity"], []),
    (["thing"], [0]),
    (["animal", "beast"], [1]),
    (["pet"], [0]),
    (["cat", "true_cat"], [2]),
    (["dog"], [2, 3]),
    (["bank"], [1]),
    (["depository", "bank"], [0]),
]
DEBIAN = Path("/usr/share/wordnet/data.noun")


def write_dictionary(folder: Path, nouns=NOUNS) -> dict[str, str]:
    """Files as wndb(5) describes them; returns the wnid of each synset's first word."""
    header = "  1 A made-up dictionary.\n"

    def lines(offsets):
        for offset, (words, above) in zip(offsets, nouns, strict=True):
            spelled = " ".join(f"{word} 0" for word in words)
            pointers = "".join(f" @ {offsets[i]:08} n 0000" for i in above)
            counted = f"{len(words):02x} {spelled} {len(above):03}{pointers}"
            yield f"{offset:08} 03 n {counted} | what it means: 1 | 2\n"

    lengths = [len(line) for line in lines([0] * len(nouns))]
    offsets = [len(header) + sum(lengths[:i]) for i in range(len(nouns))]
    (folder / "data.noun").write_text(header + "".join(lines(offsets)))
    senses = {}
    for offset, (words, _) in zip(offsets, nouns, strict=True):
        for word in words:
            senses.setdefault(word, []).append(f"{offset:08}")
    index = [f"{word} n {len(o)} 1 @ {len(o)} 0 {' '.join(o)}  \n" for word, o in sorted(senses.items())]
    (folder / "index.noun").write_text(header + "".join(index))
    return {words[0]: f"n{offset:08}" for offset, (words, _) in zip(offsets, nouns, strict=True)}


@pytest.fixture
def wnids(tmp_path):
    return write_dictionary(tmp_path)


def test_words_below_their_first_hypernyms(tmp_path, wnids):
    tree = Hierarchy.wordnet(["dog", "True cat", wnids["bank"]], tmp_path)
    assert tree.classes == ("dog", "True cat", "bank")
    assert tree.path("dog") == ("thing", "animal", "dog")
    assert tree.names[0] == "entity"
    np.testing.assert_array_equal(tree.distances(), [[0, 2, 3], [2, 0, 3], [3, 3, 0]])


@pytest.mark.usefixtures("wnids")
def test_the_shortest_way_up(tmp_path):
    tree = Hierarchy.wordnet(["dog", "cat"], tmp_path, hypernyms="shortest")
    assert tree.path("dog") == ("pet", "dog")
    assert Hierarchy.wordnet(["dog", "cat"], tmp_path, hypernyms="shortest", collapse=True).num_nodes == 3


def test_meanings_have_numbers(tmp_path, wnids):
    tree = Hierarchy.wordnet(["bank.n.01", "bank.n.02"], tmp_path)
    assert tree.classes == ("thing/bank", "bank")
    assert WordNet(tmp_path).find("bank.n.02") == wnids["depository"]


def test_siblings_of_one_name_have_their_wnids(tmp_path):
    wnids = write_dictionary(tmp_path, [(["entity"], []), (["bank"], [0]), (["bank"], [0])])
    tree = Hierarchy.wordnet(["bank", "bank.n.02"], tmp_path)
    assert tree.classes[0] == f"bank ({wnids['bank'][:1]}{tree.classes[0][-9:-1]})"
    assert len(set(tree.classes)) == 2


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (
            ["dog", "cat"],
            {"hypernyms": "all"},
            "'dog' .n.* has 'animal' and 'pet': that is no tree; take 'first'",
        ),
        (["dog", "cat"], {"hypernyms": "last"}, "hypernyms must be one of"),
        (["dog", "animal"], {}, "words has 'animal' .*which lies above another entry"),
        (["dog", "dog"], {}, "words has 'dog' .*which is there twice"),
        (["dog", "unicorn"], {}, "words has 'unicorn', which is no noun"),
        (["dog", ""], {}, "words has '', which is no noun"),
        (["dog", "bank.n.03"], {}, "'bank' has 2 meanings"),
        (["dog", "n00000007"], {}, "has no synset n00000007"),
        (["dog", "n99999999"], {}, "has no synset n99999999"),
        (["dog"], {}, "words must have at least 2 entries, got 1"),
        ("dog", {}, "words must be a list of words"),
    ],
)
@pytest.mark.usefixtures("wnids")
def test_wrong_words(tmp_path, words, options, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy.wordnet(words, tmp_path, **options)


@pytest.mark.parametrize("hypernyms", ["first", "shortest"])
def test_circles_are_refused(tmp_path, hypernyms):
    write_dictionary(tmp_path, [(["hen"], [1]), (["egg"], [0]), (["root"], []), (["stone"], [2])])
    with pytest.raises(ValueError, match="go round in a circle"):
        Hierarchy.wordnet(["hen", "stone"], tmp_path, hypernyms=hypernyms)


@pytest.mark.parametrize("damage", [b"zz", b"ff", b"00"])
@pytest.mark.usefixtures("wnids")
def test_damaged_dictionaries_are_refused_in_one_sentence(tmp_path, damage):
    path = tmp_path / "data.noun"
    path.write_bytes(path.read_bytes().replace(b" 03 n 02 cat", b" 03 n " + damage + b" cat"))
    with pytest.raises(ValueError, match=r"data\.noun: the line of n.* is damaged"):
        Hierarchy.wordnet(["dog", "cat"], tmp_path)


def test_without_wordnet(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data\.noun is not there; Debian's package wordnet-base"):
        Hierarchy.wordnet(["dog", "cat"], tmp_path)


def test_all_of_imagenet():
    tree = Hierarchy.imagenet()
    assert (tree.num_classes, tree.num_nodes, tree.height) == (1000, 1808, 18)
    assert tree.index("tabby") == 281
    assert tree.path("tabby")[-4:] == ("feline", "cat", "domestic cat", "tabby")
    joined = Hierarchy.imagenet(collapse=True)
    np.testing.assert_allclose(joined.distances(), tree.distances())
    assert joined.num_nodes < tree.num_nodes


def test_some_of_imagenet_by_wnid_name_and_number():
    tree = Hierarchy.imagenet(["n02123045", "minivan", np.int64(207)])
    assert tree.classes == ("tabby", "minivan", "golden retriever")
    whole = Hierarchy.imagenet()
    np.testing.assert_array_equal(tree.distances(), whole.distances([281, 656, 207]))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["tabby", "crane"], r"'crane', the name of 2 classes: give one of \['n02012849', 'n03126707'\]"),
        (["tabby", "tabbi"], "did you mean 'tabby'"),
        (["tabby", 1000], "must be numbers from 0 to 999, got 1000"),
        (["tabby", 281], "'tabby' .* is there twice"),
        ("tabby", "must be a list of classes"),
    ],
)
def test_wrong_classes_of_imagenet(classes, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy.imagenet(classes)


def test_hypernyms_change_few_classes():
    first, shortest = Hierarchy.imagenet(), Hierarchy.imagenet(hypernyms="shortest")
    pairs = zip(first.leaves.tolist(), shortest.leaves.tolist(), strict=True)
    same = [first.path(leaf) == shortest.path(other) for leaf, other in pairs]
    assert 0.5 < np.mean(same) < 1


@pytest.mark.skipif(not DEBIAN.exists(), reason="no WordNet here")
def test_the_file_is_that_of_wordnet():
    synsets, classes = _imagenet()
    tree = Hierarchy.wordnet(classes, DEBIAN.parent)
    assert tree == Hierarchy.imagenet()
    assert all(synsets[wnid].words == WordNet(DEBIAN.parent).synset(wnid).words for wnid in classes[:3])
