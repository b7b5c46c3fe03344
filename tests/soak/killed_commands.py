"""Commands that are killed and given again: evaluate, embed, predict, search, report, reproduce."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from killing import Ended, Files, Moment, different, half_written, left_over, read_files, run

_TRAIN = "cophenet train digits --objective {objective} -o {name} --seeds {seeds} --threads 1 --set epochs=2"


@dataclass(frozen=True)
class Command:
    """A command, and what it finds.

    Attributes:
        line: What a user types.
        needs: Files and folders that are there before, among them those it replaces.
        folders: Folders that it replaces as a whole.
        trains: Where it trains: files there change as long as it runs, and only the end counts.
    """

    line: str
    needs: tuple[str, ...]
    folders: tuple[str, ...] = ()
    trains: str | None = None


COMMANDS = {
    "evaluate": Command("cophenet evaluate two --device cpu", ("two",)),
    "evaluate-again": Command("cophenet evaluate one", ("one",)),
    "embed": Command(
        "cophenet embed vectors.npz --tree tree.yaml --seed 1 --save model -o reshaped.npz",
        ("vectors.npz", "tree.yaml", "model", "reshaped.npz"),
        folders=("model",),
    ),
    "embed-saved": Command(
        "cophenet embed vectors.npz --model model -o reshaped.parquet", ("vectors.npz", "model")
    ),
    "predict": Command(
        "cophenet predict vectors.npz --model model -o answers.csv", ("vectors.npz", "model", "answers.csv")
    ),
    "search": Command(
        "cophenet search vectors.npz --model model --index vectors.npz -k 3 -o near.safetensors",
        ("vectors.npz", "model"),
    ),
    "report": Command("cophenet report one evaluated -o page.html", ("one", "evaluated", "page.html")),
    "reproduce": Command(
        "cophenet reproduce rank --recipe digits --seeds 0, --set epochs=2 --runs runs -o out --threads 1",
        (),
        trains="runs",
    ),
}


def prepare(folder: Path, names: tuple[str, ...]) -> None:
    """Make what commands need: runs, vectors, and what is there from earlier commands, all in one folder."""
    needs = {need for name in names for need in COMMANDS[name].needs}
    folder.mkdir()
    if needs & {"vectors.npz", "model"}:
        _write_vectors(folder)
        run("cophenet embed vectors.npz --tree tree.yaml --save model -o reshaped.npz", folder)
    if "answers.csv" in needs:
        (folder / "answers.csv").write_text("of an earlier command\n")
    if needs & {"two", "evaluated"}:
        run(_TRAIN.format(name="two", seeds=2, objective="fastft"), folder)
    if "one" in needs:
        run(_TRAIN.format(name="one", seeds="3,", objective="flat"), folder)
        run("cophenet evaluate one", folder)
    if "page.html" in needs:
        shutil.copytree(folder / "two", folder / "evaluated")
        run("cophenet evaluate evaluated", folder)
        run("cophenet report evaluated one -o page.html", folder)  # UMAP is saved in the runs
        run("cophenet report one -o page.html", folder)


def _write_vectors(folder: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog", "cup", "pen"], 100)
    features = rng.normal(size=(len(labels), 16)) + np.repeat(rng.normal(size=(4, 16)), 100, axis=0)
    np.savez(folder / "vectors.npz", features=features.astype(np.float32), labels=labels)
    (folder / "tree.yaml").write_text("animal: [cat, dog]\nthing: [cup, pen]\n")


class CommandCase:
    """One command: killed at random moments, after each of which everything is old or new, then left alone.

    Args:
        name: Name of the command.
        root: Folder to work in; `prepared` is there.
    """

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root, self.command, self.rounds = name, root, COMMANDS[name], 0
        folder = self._new_folder("alone")
        self.before: Files = read_files(folder)
        self.whole: Ended = run(self.command.line, folder)
        self.after: Files = read_files(folder)

    def kill(self, kills: int, rng: random.Random) -> tuple[int, list[str]]:
        """Kill the command some times and let it end; how often it was really killed, and what is wrong."""
        self.rounds += 1
        folder = self._new_folder(str(self.rounds))
        wrong: list[str] = []
        done = 0
        for _ in range(kills):
            if not run(self.command.line, folder, Moment.draw(rng, self.whole)).killed:
                break
            done += 1
            wrong += [f"{name} half written" for name in self._half_written(folder)]
        else:
            run(self.command.line, folder)
        wrong += [*different(self.after, read_files(folder)), *left_over(folder)]
        shutil.rmtree(folder)
        return done, wrong

    def _new_folder(self, ending: str) -> Path:
        folder = self.root / f"{self.name}-{ending}"
        folder.mkdir()
        for need in self.command.needs:
            source = self.root / "prepared" / need
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / need)
        return folder

    def _half_written(self, folder: Path) -> list[str]:
        states = (self.before, self.after, read_files(folder))
        before, after, now = (self._without_training(files) for files in states)
        return half_written(before, after, now, self.command.folders)

    def _without_training(self, files: Files) -> Files:
        trains = self.command.trains
        return {name: content for name, content in files.items() if not (trains and name.startswith(trains))}
