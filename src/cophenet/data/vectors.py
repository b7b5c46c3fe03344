"""Feature vectors from files: data sets for heads and losses without a backbone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from cophenet._common.checks import check_choice, check_file, check_share, check_whole, wrong_argument
from cophenet._common.limits import read_text
from cophenet.data.dataset import (
    ArrayInputs,
    DataSet,
    Labels,
    Part,
    Requirement,
    Samples,
    read_tree_file,
    split_data_set,
)
from cophenet.data.registry import DataSource, register_source
from cophenet.data.stratified_sampling import draw_test_part
from cophenet.tree import AmbiguousNameError, Hierarchy, Split
from cophenet.vectors import read_vectors
from cophenet.vectors.formats import format_list, is_whole
from cophenet.vectors.reading import Features

__all__ = ["Vectors"]

_HOW = " (on the command line --set data.options.labels=positions)"


@register_source
class Vectors(DataSource):
    """Feature vectors with labels from files of any format of `cophenet.vectors`.

    `read_vectors` describes arrays and columns. A label is the name of a class, or its path with ``/``
    between the names, by exact text: "00" is not "0", the whole number 7 is "7". Source and target are split
    by the rule with fraction 0.4. Relative paths start in the data folder.

    Args:
        train: File of the training part, or of all samples.
        test: File of the test part; None to draw a share of every class of the first file.
        tree_file: The tree, read by `Hierarchy.read`; None for a star of the classes in the training file,
            which has no source and target.
        test_share: Share of the test part, if there is no test file.
        seed: Determines which samples are the test part, if there is no test file.
        labels: Kind of the labels in all files: "names" of classes, or "positions" in the classes of the tree
            file, from 0.
        texts: UTF-8 file with one line for each row of the test file, or of the only file; a report shows
            the texts of the worst mistakes.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> np.savez(folder / "birds.npz", features=np.eye(4), labels=["owl", "jay", "owl", "jay"])
        >>> birds = Vectors("birds.npz", test_share=0.5).load(folder)
        >>> birds.tree.classes, len(birds.samples("train")), len(birds.samples("test"))
        (('jay', 'owl'), 2, 2)
    """

    name = "vectors"
    summary = f"feature vectors from {format_list()} files"

    def __init__(
        self,
        train: str = "vectors.npz",
        test: str | None = None,
        tree_file: str | None = None,
        test_share: float = 0.2,
        seed: int = 0,
        labels: Literal["names", "positions"] = "names",
        texts: str | None = None,
    ) -> None:
        check_file("train", train)
        for argument, file in {"test": test, "tree_file": tree_file, "texts": texts}.items():
            if file is not None:
                check_file(argument, file)
        check_share("test_share", test_share)
        check_whole("seed", seed, 0)
        check_choice("labels", labels, ("names", "positions"))
        if labels == "positions" and tree_file is None:
            raise wrong_argument("labels", "'positions' needs a tree to count classes in: give tree_file")
        self.train, self.test, self.tree_file, self.texts = train, test, tree_file, texts
        self.test_share, self.seed, self.labels = test_share, seed, labels

    def check_domain(self, domain: str) -> None:
        """Raise for source and target if there is no tree file."""
        super().check_domain(domain)
        if domain != "full" and self.tree_file is None:
            raise wrong_argument(
                "domain",
                f"must be full for data {self.name!r} without the option tree_file, because nothing else "
                f"says how classes are split, got {domain!r}",
            )

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The files given as options."""
        named = {
            self.train: "features and labels of the training part",
            self.test: "features and labels of the test part",
            self.tree_file: "the tree of the classes",
            self.texts: "texts of the test part",
        }
        paths = {(data_dir or Path()) / file: note for file, note in named.items() if file is not None}
        return [Requirement(path, path.is_file(), note) for path, note in paths.items()]

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set.

        Raises:
            FileNotFoundError: If a file is missing.
            ValueError: If a file cannot be read, labels are not classes, the training file has only one
                class, a class has a single sample and there is no test file, or the number of texts differs
                from the number of rows.
        """
        base = data_dir or Path()
        path = base / self.train
        features, given = read_vectors(path)
        if len(set(given)) == 1:
            raise ValueError(
                f"{path}: data {self.name!r} needs at least two classes, found only {given[0]!r}"
            )
        tree = _star(given) if self.tree_file is None else read_tree_file(base / self.tree_file)
        texts: tuple[str, ...] = ()
        if self.texts is not None:
            texts = tuple(re.split(r"\r?\n", read_text(base / self.texts).removesuffix("\n")))
        whole = self._samples(features, given, tree, path, texts if self.test is None else ())
        parts: dict[Part, Samples]
        if self.test is None:
            try:
                parts = draw_test_part(whole, self.test_share, self.seed, instead="a test file")
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
        else:
            test = base / self.test
            others, answers = read_vectors(test)
            if others.shape[1] != features.shape[1]:
                sizes = f"{others.shape[1]} features, the training part has {features.shape[1]}"
                raise ValueError(f"{test}: has {sizes}")
            parts = {"train": whole, "test": self._samples(others, answers, tree, test, texts)}

        def split() -> Split:
            if self.tree_file is None:
                raise ValueError("domain must be 'full' without a tree to split by: give tree_file")
            return tree.source_target_split()

        return split_data_set(self.name, tree, parts.__getitem__, split=split)

    def _samples(
        self, features: Features, given: list[str], tree: Hierarchy, path: Path, texts: tuple[str, ...]
    ) -> Samples:
        if texts and len(texts) != len(given):
            raise ValueError(f"{self.texts} has {len(texts)} lines, but {path} has {len(given)} rows")
        if self.labels == "positions":
            labels = _positions(given, tree, path)
        else:
            where = "the tree" if self.tree_file is not None else f"the training part {self.train}"
            labels = _by_name(given, tree, path, where)
        inputs = ArrayInputs(torch.from_numpy(features), texts)
        return Samples(inputs, np.arange(len(labels)), labels, tree)


def _star(given: list[str]) -> Hierarchy:
    """A star of the classes, sorted as numbers if all are whole numbers, else as text."""
    names = sorted(set(given))
    if all(is_whole(name) for name in names):
        names.sort(key=int)
    return Hierarchy.from_paths([(name,) for name in names])


def _by_name(given: list[str], tree: Hierarchy, path: Path, where: str) -> Labels:
    known = {name: _label(tree, name, path) for name in sorted(set(given))}
    unknown = [name for name, label in known.items() if label is None]
    if unknown:
        hint = ""
        if where == "the tree" and all(is_whole(name) for name in unknown):
            hint = "; if they are positions in these, counted from 0, pass labels='positions'" + _HOW
        raise ValueError(
            f"{path}: {len(unknown)} labels are not in {where}, e.g. {unknown[:3]!r}; {where} has "
            f"{tree.num_classes} classes: {list(tree.classes[:3])!r}...{hint}"
        )
    return np.array([known[name] for name in given], dtype=np.int64)


def _label(tree: Hierarchy, name: str, path: Path) -> int | None:
    """The label of a name or path; None if it is not a class."""
    try:
        return tree.index(name)
    except AmbiguousNameError as error:
        raise ValueError(f"{path}: {error}") from None
    except ValueError:
        return None


def _positions(given: list[str], tree: Hierarchy, path: Path) -> Labels:
    last = tree.num_classes - 1
    wrong = sorted(name for name in set(given) if not is_whole(name) or not 0 <= int(name) <= last)
    if wrong:
        raise ValueError(
            f"{path}: {len(wrong)} labels are not positions, e.g. {wrong[:3]!r}; labels='positions' allows "
            f"0 to {last}, for the {last + 1} classes of the tree"
        )
    return np.array(given).astype(np.int64)
