"""Trees of WordNet's nouns: from a local WordNet, and of the ImageNet classes, whose synsets are bundled.

A synset is identified by its *wnid*, as in ImageNet: ``n`` and its offset in WordNet 3.0, such as
``n02084071``. Its parent is its hypernym; if it has several, a rule selects one, since a tree node has one
parent.

Fellbaum (ed.), "WordNet: An Electronic Lexical Database", MIT Press 1998; Russakovsky et al., "ImageNet Large
Scale Visual Recognition Challenge", IJCV 2015, arXiv:1409.0575.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from cophenet._common.checks import check_choice, nearest_hint, wrong_argument
from cophenet._common.limits import read_bytes
from cophenet.tree.parts import DEFAULT_ROOT, Parts

__all__ = ["Hypernyms", "Synset", "WordNet", "imagenet_parts", "wordnet_parts"]

Hypernyms = Literal["first", "shortest", "all"]

_WNID = re.compile(r"n[0-9]{8}")
_SENSE = re.compile(r"(.+)\.n\.(\d{1,3})")


class Synset(NamedTuple):
    """Words of one meaning, the most common first, and the wnids of its hypernyms, the main one first."""

    words: tuple[str, ...]
    hypernyms: tuple[str, ...]


class WordNet:
    """The nouns of a WordNet folder (``data.noun`` and ``index.noun``, of version 3.0 for ImageNet's wnids).

    Args:
        folder: Such as /usr/share/wordnet, where Debian's package wordnet-base installs it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder) / "data.noun"
        if not self._path.is_file():
            raise FileNotFoundError(
                f"{self._path} is not there; Debian's package wordnet-base has WordNet 3.0"
            )
        self._data = read_bytes(self._path)
        self._index = b"\n" + read_bytes(Path(folder) / "index.noun")

    def synset(self, wnid: str) -> Synset:
        """The synset of a wnid; the layout of a line is in WordNet's manual page wndb(5)."""
        offset = wnid[1:].encode()
        start = int(offset)
        line = self._data[start : self._data.find(b"\n", start)]
        if self._data[start - 1 : start] not in (b"", b"\n") or not line.startswith(offset + b" "):
            raise ValueError(f"{self._path}: has no synset {wnid}; wnids are offsets in WordNet 3.0")
        try:
            fields = line.partition(b"|")[0].decode("ascii").split()
            count = int(fields[3], 16)
            words = [word.replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
            pointers, kinds = fields[5 + 2 * count :], ("@", "@i")  # hypernym, instance hypernym
            each = range(0, 4 * int(fields[4 + 2 * count]), 4)
            above = [f"n{pointers[i + 1]}" for i in each if pointers[i] in kinds]
        except (ValueError, IndexError):
            words = above = []
        if not words or not all(map(str.isprintable, words)) or not all(map(_WNID.fullmatch, above)):
            raise ValueError(
                f"{self._path}: the line of {wnid} is damaged, or this is not WordNet's data.noun"
            )
        return Synset(tuple(words), tuple(above))

    def find(self, word: str) -> str:
        """The wnid of a noun: its most common meaning, or another one as in ``bank.n.02``."""
        sense = _SENSE.fullmatch(word)
        lemma, number = (sense[1], int(sense[2])) if sense else (word, 1)
        key = lemma.strip().lower().replace(" ", "_")
        start = self._index.find(b"\n" + key.encode() + b" ") + 1 if key else 0
        if not start:
            raise ValueError(f"words has {word!r}, which is no noun of WordNet")
        line = self._index[start : self._index.find(b"\n", start)]
        offsets = re.findall(r" ([0-9]{8})\b", line.decode("ascii", "replace"))
        if not 1 <= number <= len(offsets):
            raise ValueError(f"words has {word!r}, but {lemma!r} has {len(offsets)} meanings as a noun")
        return f"n{offsets[number - 1]}"


def wordnet_parts(words: Iterable[str], folder: str | os.PathLike[str], hypernyms: str) -> Parts:
    """The tree of some nouns, words or wnids, in label order."""
    if isinstance(words, str):
        raise wrong_argument("words", f"must be a list of words, got {words!r}")
    wordnet = WordNet(folder)
    given = list(words)
    wnids = [word if _WNID.fullmatch(word) else wordnet.find(word) for word in given]
    called = {wnid: _SENSE.sub(r"\1", word) for wnid, word in zip(wnids, given, strict=True) if wnid != word}
    return _parts("words", wnids, wordnet.synset, hypernyms, called)


def imagenet_parts(classes: Sequence[str | int] | None, hypernyms: str) -> Parts:
    """The tree of ImageNet's classes, or of some of them in the given label order."""
    synsets, wnids = _imagenet()
    if classes is None:
        chosen = list(wnids)
    elif isinstance(classes, str):
        raise wrong_argument("classes", f"must be a list of classes, got {classes!r}")
    else:
        chosen = [_imagenet_class(value) for value in classes]
    return _parts("classes", chosen, synsets.__getitem__, hypernyms, {})


def _imagenet_class(value: str | int) -> str:
    synsets, wnids = _imagenet()
    if not isinstance(value, str):
        number = int(value)
        if not 0 <= number < len(wnids):
            raise wrong_argument("classes", f"must be numbers from 0 to {len(wnids) - 1}, got {value}")
        return wnids[number]
    if value in wnids:
        return value
    found = [wnid for wnid in wnids if value in synsets[wnid].words]
    found = [wnid for wnid in found if value == synsets[wnid].words[0]] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise wrong_argument(
            "classes", f"has {value!r}, the name of {len(found)} classes: give one of {found}"
        )
    hint = nearest_hint(value, [word for wnid in wnids for word in synsets[wnid].words])
    raise wrong_argument(
        "classes", f"has {value!r}, which is none of ImageNet's 1,000{hint}; other nouns: Hierarchy.wordnet"
    )


@cache
def _imagenet() -> tuple[dict[str, Synset], tuple[str, ...]]:
    """All synsets of the tree, and the classes in label order."""
    text = files("cophenet.tree").joinpath("facts/imagenet.tsv").read_text(encoding="utf-8")
    synsets, classes = {}, []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        wnid, kind, above, words = line.split("\t")
        synsets[wnid] = Synset(tuple(words.split(", ")), tuple(above.split()))
        if kind == "class":
            classes.append(wnid)
    return synsets, tuple(classes)


def _parts(
    argument: str, wnids: list[str], synset: Callable[[str], Synset], hypernyms: str, called: dict[str, str]
) -> Parts:
    """Build the tree of synsets and their ancestors, with parents selected by the rule ``hypernyms``."""
    check_choice("hypernyms", hypernyms, get_args(Hypernyms))
    if len(wnids) < 2:
        raise wrong_argument(argument, f"must have at least 2 entries, got {len(wnids)}")
    known = _ancestors(wnids, synset)
    parents = _parents(known, hypernyms)
    inner = {parent for wnid in wnids for parent in _way_up(wnid, parents)}
    for wnid, times in Counter(wnids).items():
        if wnid in inner or times > 1:
            problem = (
                "is there twice" if times > 1 else "lies above another entry, and a class has none below it"
            )
            raise wrong_argument(argument, f"has {known[wnid].words[0]!r} ({wnid}), which {problem}")
    ordered = [*sorted(inner), *wnids]
    roots = [wnid for wnid in ordered if parents[wnid] is None]
    number = {wnid: node for node, wnid in enumerate(ordered)}
    words = {wnid: called.get(wnid, known[wnid].words[0]) for wnid in ordered}
    names, places = _names(words, parents), [number.get(parents[wnid] or "", -1) for wnid in ordered]
    if len(roots) > 1:  # not WordNet itself, which has one root
        names, places = [DEFAULT_ROOT, *names], [-1, *(place + 1 for place in places)]
    return Parts(places, names, None, None, None)


def _ancestors(wnids: Iterable[str], synset: Callable[[str], Synset]) -> dict[str, Synset]:
    """The synsets and all their ancestors."""
    known: dict[str, Synset] = {}
    waiting = list(wnids)
    while waiting:
        wnid = waiting.pop()
        if wnid not in known:
            known[wnid] = synset(wnid)
            waiting += known[wnid].hypernyms
    return known


def _parents(known: dict[str, Synset], hypernyms: str) -> dict[str, str | None]:
    """One parent for each synset, None for a root."""
    if hypernyms == "all":
        for wnid, (words, above) in known.items():
            if len(above) > 1:
                listed = " and ".join(repr(known[parent].words[0]) for parent in above)
                raise wrong_argument(
                    "hypernyms",
                    f"'all' needs one parent for each, but {words[0]!r} ({wnid}) has {listed}: that is no "
                    "tree; take 'first' or 'shortest'",
                )
    if hypernyms != "shortest":
        return {wnid: above[0] if above else None for wnid, (_, above) in known.items()}
    depth = {wnid: 0 for wnid, (_, above) in known.items() if not above}
    while len(depth) < len(known):  # level by level from the roots down
        level = {
            wnid: 1 + min(depth[parent] for parent in above if parent in depth)
            for wnid, (_, above) in known.items()
            if wnid not in depth and any(parent in depth for parent in above)
        }
        if not level:
            raise ValueError("the hypernyms go round in a circle")
        depth |= level
    nowhere = len(known)
    return {
        wnid: min(above, key=lambda parent: depth.get(parent, nowhere)) if above else None
        for wnid, (_, above) in known.items()
    }


def _way_up(wnid: str, parents: dict[str, str | None]) -> list[str]:
    way: list[str] = []
    seen = {wnid}
    parent = parents[wnid]
    while parent is not None:
        if parent in seen:
            raise ValueError(f"the hypernyms of {wnid} go round in a circle")
        seen.add(parent)
        way.append(parent)
        parent = parents[parent]
    return way


def _names(words: dict[str, str], parents: dict[str, str | None]) -> list[str]:
    """The word of each synset, with its wnid if a sibling has the same word."""
    count = Counter((parents[wnid], word) for wnid, word in words.items())
    return [f"{word} ({w})" if count[parents[w], word] > 1 else word for w, word in words.items()]
