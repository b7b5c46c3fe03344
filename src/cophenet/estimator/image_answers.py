"""Predictions for image files, with an estimator loaded from a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cophenet._common.progress import Progress
from cophenet.data.augmentation import RandomCrop
from cophenet.data.image_files import EXTENSIONS, ImageFiles, is_image
from cophenet.estimator.embedder import HierarchicalEmbedder
from cophenet.estimator.vector_files import Answered, answer_columns
from cophenet.vectors import write_vectors

__all__ = ["has_images", "predict_images"]

# Images decoded at a time.
_IMAGES = 64


def predict_images(
    embedder: HierarchicalEmbedder,
    paths: Sequence[Path],
    output: Path,
    decision: str,
    error_target: float | None,
) -> Answered:
    """Write the prediction for each image file, with the path of the file.

    Args:
        embedder: An estimator loaded from a run on colour images.
        paths: Image files, and folders that are searched recursively.
        output: The file to write.
        decision: As for `HierarchicalEmbedder.predict`.
        error_target: As for `HierarchicalEmbedder.predict`.

    Returns:
        The counts of the predictions.

    Raises:
        FileNotFoundError: If a file or folder does not exist.
        ValueError: If the model is not for colour images, or a file is not an image.
    """
    view = getattr(embedder.network_, "image_view", None)
    if view is None:
        raise ValueError("the model takes no image files: only one of a run on colour images does")
    images = [image for path in paths for image in _find_images(path)]
    files, answered = ImageFiles(images, view, RandomCrop()), Answered(embedder)

    def parts() -> Iterator[dict[str, Any]]:
        with Progress("images", len(images)) as bar:
            for start in range(0, len(images), _IMAGES):
                rows = np.arange(start, min(start + _IMAGES, len(images)))
                pixels = files.take(rows).contiguous()
                answers = answer_columns(embedder, pixels, decision, error_target, answered)
                yield {"file": np.array([images[row] for row in rows]), **answers}
                bar.update(int(rows[-1]) + 1)

    write_vectors(output, parts(), numbered=("file", "prediction", "path"))
    return answered


def has_images(path: Path) -> bool:
    """Whether `predict_images` accepts a path: a folder, or a file with the extension of an image."""
    return path.is_dir() or is_image(path.name)


def _find_images(path: Path) -> list[str]:
    """The image, or all images in a folder and its subfolders, sorted by name; hidden ones are skipped."""
    if not path.is_dir():
        if not path.is_file():
            raise FileNotFoundError(f"image {path} not found")
        if not is_image(path.name):
            raise ValueError(f"{path} is no image: files {' '.join(EXTENSIONS)} are")
        return [str(path)]

    def stop(error: OSError) -> None:
        raise error

    found = []
    for folder, inner, names in os.walk(path, onerror=stop):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        found += [str(Path(folder, name)) for name in sorted(names) if is_image(name)]
    if not found:
        raise ValueError(f"folder {path} holds no images (files {' '.join(EXTENSIONS)})")
    return found
