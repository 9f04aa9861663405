"""JAAS entries as Java reads them, and mistakes in them, explained without a secret."""

from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.security.jaas import LoginEntry, parse_jaas


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Module required;", {}),
        ('Module required username="alice" password="s3;=cret" ;', {"username": "alice", "password": "s3;=cret"}),
        ("Module REQUIRED username='alice' password=plain-text.1;", {"username": "alice", "password": "plain-text.1"}),
        ('Module required\n  password = "a\\"b\\\\c\\n\\101" ;\n', {"password": 'a"b\\c\nA'}),
        ('Module required // why\n /* and\n how */ username="//x";', {"username": "//x"}),
        ('Module sufficient username="";', {"username": ""}),
    ],
)
def test_entries_are_read_as_java_reads_them(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == LoginEntry("Module", options)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "semicolon"),
        ('Module required password="s3cret"', "semicolon"),
        ('Module required password="s3cret"; Module required;', "more than one"),
        ("Module;", "a flag"),
        ('Module password="s3cret";', "a flag"),
        ("= required;", "login module"),
        ('Module required password "s3cret";', "name="),
        ('Module required "s3cret";', "name="),
        ("Module required password=;", "name="),
        ('Module required password="s3cret;', "from character 26 on"),
        ("Module required password=4s3cret;", "from character 26 on"),
    ],
)
def test_mistakes_are_reported_without_the_secret(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        parse_jaas(text)
    assert "s3cret" not in str(caught.value)
    assert str(caught.value).startswith("sasl.jaas.config: ")
