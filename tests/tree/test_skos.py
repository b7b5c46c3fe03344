"""Thesauri in SKOS, as Turtle and JSON-LD."""

import json

import pytest

from cophenet import Hierarchy

TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix ex: <http://example.org/> .
ex:animal a skos:Concept ; skos:prefLabel "Tier"@de, "animal"@en ; skos:narrower ex:cat .
ex:dog a skos:Concept ; skos:broader ex:animal ; skos:prefLabel "dog" , "Hund"@de .
ex:cat a skos:Concept ; skos:broader ex:animal ; skos:prefLabel "chat"@fr, "Katze"@de .
ex:car a skos:Concept .
"""
SKOS = "http://www.w3.org/2004/02/skos/core#"
JSON_LD = {
    "@context": {"skos": SKOS, "broader": {"@id": "skos:broader", "@type": "@id"}, "label": "skos:prefLabel"},
    "@graph": [
        {"@id": "urn:x/animal", "label": "animal"},
        {"@id": "urn:x/cat", "broader": "urn:x/animal"},
        {"@id": "urn:x/dog", "broader": "urn:x/animal", "label": "hound"},
    ],
}


def read(tmp_path, text, name="tree.ttl"):
    (tmp_path / name).write_text(text)
    return Hierarchy.read(tmp_path / name)


def test_turtle(tmp_path):
    tree = read(tmp_path, TURTLE)
    assert tree == Hierarchy.from_paths([("car",), ("animal", "Katze"), ("animal", "dog")])


def test_json_ld(tmp_path):
    tree = read(tmp_path, json.dumps(JSON_LD), "tree.jsonld")
    assert tree.classes == ("cat", "hound")
    assert tree.names[0] == "animal"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TURTLE + "ex:dog skos:broader ex:car .",
            r"dog' has several above it, .*/animal' and .*/car': no tree; keep one",
        ),
        ("<urn:a> <urn:b> <urn:c> .", "there are no concepts"),
        ("@prefix skos", "tree.ttl: "),
        (TURTLE + "ex:animal skos:broader ex:cat .", "tree.ttl: "),
    ],
)
def test_wrong_files(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "context",
    [
        "http://localhost:9/context",
        [{}, "http://localhost:9/context"],
        {"@import": "http://localhost:9/context"},
    ],
)
def test_nothing_is_fetched(tmp_path, context):
    document = {"@graph": [{"@context": context, "@id": "urn:a"}]}
    with pytest.raises(ValueError, match="the context 'http://localhost:9/context' must be in the file"):
        read(tmp_path, json.dumps(document), "tree.jsonld")


def test_it_can_only_be_read(tmp_path):
    with pytest.raises(ValueError, match="format 'skos' can only be read"):
        Hierarchy.imagenet([1, 2]).write(tmp_path / "tree.ttl")


def test_odd_addresses_are_not_written_to_the_log(tmp_path, capfd):
    read(tmp_path, TURTLE + "ex:cat skos:related <http://odd|address> .\n")
    assert capfd.readouterr() == ("", "")
