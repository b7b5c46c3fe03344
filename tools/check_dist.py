"""Installs a built wheel into empty environments, and runs what the pages say there: `make dist`.

The first environment has the wheel without extras, with the torch of constraints.txt, and runs the README.
For each extra there is one more, which sees the first and has that extra alone: it runs the code of its page.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What a reader of an excerpt has: a batch, and a network's output for it.
SCOPE = """
import torch
from torch.nn.functional import cross_entropy
from cophenet import Hierarchy, class_distances, cpcc
labels, logits = torch.arange(12) % 4, torch.zeros(12, 4)
features = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
"""
TREE = "tree = Hierarchy.from_paths([('pet', 'cat'), ('pet', 'dog'), ('car', 'bus'), ('car', 'van')])\n"
# Extra -> a page whose code is run, or code.
SNIPPETS = {
    "": "README.md",
    "fast": "class_distances(features, labels, distance='emd', solver='numba')",
    "metrics": "docs/metrics.md",
    "yaml": TREE + "tree.write('tree.yaml'); assert Hierarchy.read('tree.yaml') == tree",
    "data": "docs/data.md",
    "skos": "from pathlib import Path\nPath('x.ttl').write_text("
    "'@prefix s: <http://www.w3.org/2004/02/skos/core#> . <urn:x/a> s:narrower <urn:x/b>, <urn:x/c> .')\n"
    "assert Hierarchy.read('x.ttl').classes == ('b', 'c')",
    "cli": "import sys; sys.argv = ['cophenet', 'recipes']\nfrom cophenet.__main__ import main\n"
    "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code",
    "train": "docs/training.md",
    "report": "docs/reports.md",
    "embed": "docs/embeddings.md",
    "pretrained": "from cophenet.models import create_backbone\n"
    "create_backbone('efficientnet-lite0', input_shape=(3, 64, 64), weights='pretrained')",
    "onnx": "from cophenet import HierarchicalEmbedder\n"
    + TREE
    + "names = [tree.classes[y] for y in labels]\n"
    "HierarchicalEmbedder(tree).fit(features.numpy(), names).to_onnx('model.onnx')",
    "index": "from cophenet import HierarchicalEmbedder\n"
    + TREE
    + "names = [tree.classes[y] for y in labels]\n"
    "model = HierarchicalEmbedder(tree).fit(features.numpy(), names)\n"
    "model.build_index(features.numpy(), names, backend='faiss').search(features.numpy(), k=2)",
    "ray": "import ray\nfrom cophenet import HierarchicalEmbedder\n"
    "from cophenet.integrations import RayModel\n" + TREE + "names = [tree.classes[y] for y in labels]\n"
    "HierarchicalEmbedder(tree).fit(features.numpy(), names).save('model')\n"
    "ray.init(num_cpus=2, include_dashboard=False)\n"
    "data = ray.data.from_numpy(features.numpy())\n"
    "print(data.map_batches(RayModel, fn_constructor_args=['model', 'data'], concurrency=1).count())",
    "integrations": "docs/own-model.md",
}
# For those who work on the package, or sums of others.
NOT_USED = {"dev", "docs", "demo"}


def code_of(snippet: str) -> str:
    """The code itself; of a page all its blocks."""
    if not snippet.endswith(".md"):
        return SCOPE + snippet
    return SCOPE + "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / snippet).read_text(), re.DOTALL))


def new_environment(folder: Path, below: Path | None) -> Path:
    """An environment, which also sees what is installed in another; returned is its python."""
    venv.create(folder, with_pip=True)
    if below is not None:
        for place in folder.glob("lib/python*/site-packages"):
            (place / "below.pth").write_text(f"{below}\n")
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def check(extra: str, wheel: Path, folder: Path, below: Path | None) -> str:
    """Install and run; returned is what went wrong."""
    python = new_environment(folder, below)
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    install = [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", what]
    place = folder / "run"
    place.mkdir()
    for command in (install, [python, "-I", "-W", "ignore", "-c", code_of(SNIPPETS[extra])]):
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        if done.returncode:
            return done.stderr[-2000:] or f"exit code {done.returncode}"
    return ""


def main() -> None:
    """Check all extras, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("extras", nargs="*", help="only these; all if none is given")
    given = parser.parse_args()
    with zipfile.ZipFile(given.wheel) as files:
        name = next(name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        declared = re.findall(r"^Provides-Extra: (.+)$", files.read(name).decode(), re.MULTILINE)
    if {*SNIPPETS} != {"", *declared} - NOT_USED:
        raise SystemExit(f"the extras are {sorted(declared)}, but SNIPPETS has {sorted(SNIPPETS)}")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        below = None
        for extra in ["", *(given.extras or [name for name in SNIPPETS if name])]:
            place = base if below is None else Path(folder) / extra
            problem = check(extra, given.wheel.resolve(), place, below)
            print(f"{extra or 'without extras'}: {problem or 'works'}", flush=True)
            failed += [extra or "without extras"] * bool(problem)
            if below is None:
                below = next(base.glob("lib/python*/site-packages"))
            else:
                shutil.rmtree(place)
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
