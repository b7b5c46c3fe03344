"""The code in README and docs runs as it stands."""

import re
import shlex
from pathlib import Path

import pytest
import torch
import typer
from torch.nn.functional import cross_entropy

import cophenet
from cophenet.cli import app
from cophenet.data.registry import SOURCES
from cophenet.models.registry import BACKBONES
from cophenet.objectives.registry import OBJECTIVES
from cophenet.transport.base import DISTANCES

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    # What a page registers must not outlive it.
    for registry in (BACKBONES, DISTANCES, OBJECTIVES, SOURCES):
        monkeypatch.setattr(registry, "_members", registry.members())
    # What the reader of an excerpt has: a batch, and a network's output for it. README is no excerpt.
    scope = (
        {}
        if page.name == "README.md"
        else {
            "cross_entropy": cross_entropy,
            "class_distances": cophenet.class_distances,
            "cpcc": cophenet.cpcc,
            "labels": torch.arange(12) % 4,
            "features": torch.randn(12, 8, generator=torch.Generator().manual_seed(0)),
            "logits": torch.zeros(12, 4),
        }
    )
    for code in BLOCK.findall(page.read_text()):
        exec(compile(code, page.name, "exec"), scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_those_of_the_command_line(page):
    """Every `cophenet` command in a block parses, and every `make` target exists."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    blocks = re.findall(r"^```(?:console|bash|sh)?\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    for line in (line.removeprefix("$ ") for block in blocks for line in block.splitlines()):
        line = re.split(r" (?:>|\||&&) ", line)[0]
        words = shlex.split(line, comments=True) if re.match("make |cophenet ", line) else []
        if words[:1] == ["make"]:
            assert words[1] in targets, line
        if words[:1] != ["cophenet"]:
            continue
        command, (name, *rest) = typer.main.get_command(app), words
        while hasattr(command, "commands"):
            name, *rest = rest
            command = command.commands[name]
        command.make_context(name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link
