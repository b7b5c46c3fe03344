"""SKOS, the W3C's vocabulary for thesauri, in Turtle or JSON-LD: concepts with `broader` or `narrower`.

A concept is named by its English `prefLabel`, else by one without a language, else by the first of the
others, else by the last part of its URI. Concepts without narrower ones are the classes, in the order of
their URIs, because the order in a file has no meaning in RDF. Several top concepts get a common root above
them. Nothing is downloaded: a JSON-LD context must be in the file.

W3C, "SKOS Simple Knowledge Organization System Reference", 2009, https://www.w3.org/TR/skos-reference.
"""

from __future__ import annotations

import logging
import re
import warnings
from typing import Any

from cophenet._common.files import parse_json
from cophenet._common.packages import import_optional
from cophenet.tree.parts import DEFAULT_ROOT, Parts


def parse(text: str) -> Parts:
    """Read all concepts of a file."""
    rdflib = import_optional("rdflib.namespace", "SKOS files need", "cophenet[skos]")
    skos = rdflib.namespace.SKOS
    form = "json-ld" if text.lstrip()[:1] in ("{", "[") else "turtle"
    if form == "json-ld":
        _check_context(parse_json(text))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # rdflib's JSON-LD parser raises it
        graph = _quietly(rdflib.Graph().parse, data=text, format=form)
    pairs = [*graph.subject_objects(skos.broader), *((b, a) for a, b in graph.subject_objects(skos.narrower))]
    above: dict[Any, set[Any]] = {concept: set() for concept in graph.subjects(rdflib.RDF.type, skos.Concept)}
    for concept, broader in pairs:
        above.setdefault(broader, set())
        above.setdefault(concept, set()).add(broader)
    if not above:
        raise ValueError(
            "there are no concepts: nothing is a skos:Concept or has skos:broader or skos:narrower"
        )
    concepts = sorted(above, key=str)
    place = {concept: node for node, concept in enumerate(concepts)}
    parents = [_only(concept, above[concept], place) for concept in concepts]
    names = [_name(concept, list(graph.objects(concept, skos.prefLabel))) for concept in concepts]
    if parents.count(-1) > 1:
        parents = [*(parent if parent >= 0 else len(concepts) for parent in parents), -1]
        names.append(DEFAULT_ROOT)
    return Parts(parents, names)


def _quietly(parse: Any, **given: Any) -> Any:
    """Call rdflib with its logger disabled, which would print every invalid URI of a file in full."""
    log = logging.getLogger("rdflib.term")
    before, log.disabled = log.disabled, True
    try:
        return parse(**given)
    finally:
        log.disabled = before


def _only(concept: Any, above: set[Any], place: dict[Any, int]) -> int:
    if len(above) > 1:
        listed = " and ".join(repr(str(broader)) for broader in sorted(above, key=str)[:3])
        raise ValueError(
            f"the concept {str(concept)!r:.200} has several above it, {listed:.400}: no tree; keep one"
        )
    return place[next(iter(above))] if above else -1


def _name(concept: Any, labels: list[Any]) -> str:
    """The preferred label of a concept, by language, or the last part of its URI."""
    order = {"en": 0, None: 1}
    best = min(
        labels, key=lambda label: (order.get(label.language, 2), str(label.language), str(label)), default=""
    )
    return str(best) or re.split(r"[/#]", str(concept).rstrip("/#"))[-1] or str(concept)


def _check_context(value: Any) -> None:
    """Raise ValueError for contexts that would have to be downloaded."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            context = part.get("@context")
            named = [
                one for one in (context if isinstance(context, list) else [context]) if isinstance(one, str)
            ]
            named += [str(part["@import"])] if "@import" in part else []
            if named:
                raise ValueError(f"the context {named[0]!r:.200} must be in the file: nothing is fetched")
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
