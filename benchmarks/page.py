"""The page of speed: what stands between its marks, from the results of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import against_peers
import bounds
import bures_forms
import class_means
import compiled
import compiled_loops
import decoding
import device_counts
import loading
import metrics
import objectives
import orders
import whole_sets
import whole_step
from timing import RESULTS

# What is told about a table, its header and its rows.
Table = tuple[str, list[str], list[list[str]]]
PAGE = Path(__file__).parent.parent / "docs" / "speed.md"
MARKS = ("<!-- {}: written by benchmarks/page.py -->", "<!-- end of {} -->")
# Files of results, and the benchmarks that write them.
FILES = {
    "speed": "distances",
    **{name: name for name in ("whole_sets", "orders", "loading", "decoding", "objectives", "metrics")},
}
_STEP = f"Forward and backward, d = {against_peers.WIDTH}"
_ONE = "processor time on one thread"


def tables_of_distances(speed: dict[str, Any]) -> dict[str, list[Table]]:
    """The tables of `distances.py`, by mark."""
    counts = speed["counts"]

    def by_setting(section: str) -> dict[str, Any]:
        return {setting: speed[f"{section}, {setting}"] for setting in counts}

    *_, largest = counts
    peers = against_peers.lines(by_setting("peers"), speed["growth"])
    forms, means = bures_forms.lines(speed["bures"]), class_means.lines(speed["means"])
    return {
        "peers": [(f"{_STEP}; {_ONE}, if not said otherwise:", *peers)],
        "counts": [(f"{setting}:", *device_counts.lines(rows)) for setting, rows in counts.items()],
        "compiled": [(f"{_STEP}; {_ONE}:", *compiled.lines(by_setting("compiled")))],
        "bounds": [(f"{_STEP}, {largest}; {_ONE}, taking turns:", *bounds.lines(speed["bounds"]))],
        "forms of bures": [(f"Forward and backward; {_ONE}, taking turns:", *forms)],
        "class means": [(f"Forward, d = {class_means.WIDTH}, taking turns:", *means)],
        "compiled loops": [(f"{_STEP}, taking turns:", *compiled_loops.lines(by_setting("loops")))],
        "whole step": [
            (f"{_ONE.capitalize()}, and the share of 1 - CPCC:", *whole_step.lines(speed["whole step"]))
        ],
    }


def _tables(results: dict[str, dict[str, Any]]) -> dict[str, list[Table]]:
    """All tables, by mark."""
    sets, plans = results["whole_sets"], results["orders"]
    wide = f"Time by the clock, {sets['threads']} threads, float32, d = {whole_sets.WIDTH}:"
    return {
        **tables_of_distances(results["speed"]),
        "whole sets": [(wide, *whole_sets.lines(sets["cases"]))],
        "orders": [(f"Time by the clock, {plans['threads']} threads:", *orders.lines(plans["sizes"]))],
    }


def _paragraphs(results: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Sentences with numbers, by mark."""
    speed = results["speed"]
    of = speed["machine"]
    return {
        "machine": (
            f"All numbers are of one machine: {of['processor']}, {of['cores']} cores, torch {of['torch']} on "
            "the CPU, float32. Times are the best of several. Processor time is that of one thread, which "
            "other programs disturb little; the largest load of the machine while distances were measured "
            f"was {speed['load']:.1f}."
        ),
        "reading": f"{loading.sentence(results['loading'])} {decoding.sentence(results['decoding'])}",
        "objectives": f"{objectives.sentence(results['objectives'])} {metrics.sentence(results['metrics'])}",
    }


def markdown(one: Table) -> str:
    """What is told about a table, and the table."""
    told, header, rows = one
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]
    return "\n".join([told, "", *lines])


def read_results() -> dict[str, dict[str, Any]]:
    """What all benchmarks of the page measured; a line about what is missing, or not of one machine."""
    missing = [name for name in FILES if not (RESULTS / f"{name}.json").is_file()]
    if missing:
        written = ", ".join(f"{name}.json (by benchmarks/{FILES[name]}.py)" for name in missing)
        raise SystemExit(f"missing in {RESULTS}: {written}")
    results = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in FILES}
    others = [name for name, found in results.items() if found.get("machine") != results["speed"]["machine"]]
    if others:
        raise SystemExit(f"measured on another machine or torch than speed.json: {', '.join(others)}")
    return results


def write_page(results: dict[str, dict[str, Any]], path: Path = PAGE) -> None:
    """Put tables and paragraphs between the marks of the page."""
    written = {name: "\n\n".join(map(markdown, tables)) for name, tables in _tables(results).items()}
    text = path.read_text(encoding="utf-8")
    for name, content in {**_paragraphs(results), **written}.items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{content}\n\n{end}{rest.split(end)[1]}"
    path.write_text(text, encoding="utf-8")
