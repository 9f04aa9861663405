from __future__ import annotations

import contextlib
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.spark.options.java_patterns import compile_java_pattern

NAMES = ("orders", "Orders", "orders.eu", "prod-orders_1", "a.b", "ab", "abab", "123", "x")


def found(pattern: str, names: tuple[str, ...] = NAMES) -> list[str]:
    compiled = compile_java_pattern(pattern)
    return [name for name in names if compiled.search(name)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("rder", ["orders", "Orders", "orders.eu", "prod-orders_1"]),
        ("^orders$", ["orders"]),
        (r"orders\z", ["orders"]),
        (r"\Aorders\Z", ["orders"]),
        (r"^(?<env>prod)-", ["prod-orders_1"]),
        (r"^(?<twice>ab)\k<twice>$", ["abab"]),
        (r"^(ab)\1$", ["abab"]),
        (r"\Q.\E", ["orders.eu", "a.b"]),
        (r"^\Qa.b", ["a.b"]),
        (r"^\Qab\E+$", ["ab"]),
        (r"[\Q._\E]", ["orders.eu", "prod-orders_1", "a.b"]),
        (r"^[a-z]++$", ["orders", "ab", "abab", "x"]),
        (r"^(?>ab|abab)$", ["ab"]),
        (r"^[]x]$", ["x"]),
        (r"^[^]x]{2,3}?$", ["a.b", "ab", "123"]),
        (r"^[\w-]+_", ["prod-orders_1"]),
        (r"^[\W\d]+$", ["123"]),
        (r"[-.]", ["orders.eu", "prod-orders_1", "a.b"]),
        (r"\x5f|\x{2e}e", ["orders.eu", "prod-orders_1"]),
        (r"\u005f|\0137", ["prod-orders_1"]),
        (r"^(?=.*\.)(?!a)\w", ["orders.eu"]),
        (r"(?<=prod)-(?<!x)", ["prod-orders_1"]),
        ("o|(?:x)", ["orders", "orders.eu", "prod-orders_1", "x"]),
    ],
)
def test_constructs_mean_what_they_mean_in_java(pattern: str, names: list[str]) -> None:
    assert found(pattern) == names


@pytest.mark.parametrize(
    ("name", "characters"),
    [
        ("Lower", string.ascii_lowercase),
        ("Upper", string.ascii_uppercase),
        ("Alpha", string.ascii_letters),
        ("Digit", string.digits),
        ("Alnum", string.ascii_letters + string.digits),
        ("Punct", string.punctuation),
        ("Graph", string.ascii_letters + string.digits + string.punctuation),
        ("Print", " " + string.ascii_letters + string.digits + string.punctuation),
        ("Blank", " \t"),
        ("Cntrl", "".join(map(chr, range(32))) + "\x7f"),
        ("XDigit", string.hexdigits),
        ("Space", string.whitespace),
        ("ASCII", "".join(map(chr, range(128)))),
        ("L", string.ascii_letters),
        ("Lu", string.ascii_uppercase),
        ("Ll", string.ascii_lowercase),
        ("LC", string.ascii_letters),
        ("IsLu", string.ascii_uppercase),
        ("Nd", string.digits),
        ("Pd", "-"),
        ("Pc", "_"),
        ("IsAlphabetic", string.ascii_letters),
        ("IsDigit", string.digits),
    ],
)
def test_properties_are_sets_of_ascii(name: str, characters: str) -> None:
    inside, outside = compile_java_pattern(rf"\p{{{name}}}"), compile_java_pattern(rf"\P{{{name}}}")
    in_brackets = compile_java_pattern(rf"[\p{{{name}}}]")
    for character in map(chr, range(128)):
        belongs = character in characters
        assert (inside.search(character) is not None) == belongs, ascii(character)
        assert (in_brackets.search(character) is not None) == belongs, ascii(character)
        assert (outside.search(character) is not None) == (not belongs), ascii(character)


def test_a_property_of_one_letter_needs_no_braces() -> None:
    assert found(r"^\pL+$") == ["orders", "Orders", "ab", "abab", "x"]
    assert found(r"^\PL+$") == ["123"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("(?i)ORDERS$", ["orders", "Orders"]),
        ("^O(?i)RDERS$", ["Orders"]),
        ("^(?:O(?i)R)ders$", ["Orders"]),
        ("^(?:O(?i)R)DERS$", []),
        ("^zz(?i)zz|^ORDERS$", ["orders", "Orders"]),
        ("(zz(?i)zz|^AB)$", ["ab"]),
        ("(zz(?i)zz|^AB)$|^X", ["ab"]),
        ("(?i)^O(?-i)RDERS", []),
        ("(?i:O)rders$", ["orders", "Orders"]),
        ("(?iu-s)^ORDERS$", ["orders", "Orders"]),
        ("(?du)^orders$", ["orders"]),
    ],
)
def test_flags_hold_up_to_the_end_of_their_group(pattern: str, names: list[str]) -> None:
    assert found(pattern) == names


def test_digits_belong_to_a_reference_as_long_as_there_are_such_groups() -> None:
    assert found(r"^(a)\11$", ("aa1", "aa")) == ["aa1"]
    many = "".join(f"({letter})" for letter in "abcdefghijk")
    assert found(rf"^{many}\11$", ("abcdefghijkk", "abcdefghijka1")) == ["abcdefghijkk"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[a-z&&[^b]]+", r"&& in brackets is not supported: instead of [a-z&&[^b]] write (?!b)[a-z]"),
        ("[a[bc]]", "brackets inside of brackets"),
        (r"[\P{Alpha}]", r"\P, \H and \V in brackets"),
        (r"[\H]", r"\P, \H and \V in brackets"),
        ("[a", "a bracket is not closed"),
        ("[z-a]", "begins with z"),
        (r"[a-\d]", "begins with a"),
        (r"\p{Greek}", r"\p{Greek} is not supported"),
        (r"\p{Is}", r"\p{Is} is not supported"),
        (r"\p", r"\p needs a property"),
        (r"\G", r"\G is not supported"),
        (r"\R", r"\R is not supported"),
        (r"\y", r"\y is not supported"),
        (r"a\E", r"\E is not supported"),
        (r"\b{g}", r"\b{g} is not supported"),
        ("a\\", "nothing follows"),
        (r"\x{110000}", "there is no character 110000"),
        ("a{", "{ begins no number"),
        ("a{,2}", "{ begins no number"),
        ("a**", "multiple repeat"),
        ("*a", "nothing to repeat"),
        ("a{9999999999999}", "repetition number is too large"),
        ("(a", "a group is not closed"),
        ("a)", "a group is closed"),
        ("(?P<n>a)", "no group that begins with (?P<"),
        ("(?#a)", "no group that begins with (?#a"),
        ("(?x)a", "the flag x"),
        ("(?<1>a)", "the name of a group"),
        (r"\kn", "the name of a group"),
        (r"\1", "invalid group reference"),
        ("(?<=a+)b", "look-behind requires fixed-width"),
    ],
)
def test_what_python_cannot_say_and_what_java_refuses_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        compile_java_pattern(pattern)


def test_brackets_hold_their_characters_only() -> None:
    specials = ("a", "b", "z", "-", "^", "]", "[", "&", "~", "|", "\\")
    assert found(r"^[a^&~|\-\]\[\\]$", specials) == ["a", "-", "^", "]", "[", "&", "~", "|", "\\"]
    assert found(r"^[a-]$", specials) == ["a", "-"]
    assert found(r"^[-a]$", specials) == ["a", "-"]
    assert found(r"^[a\-z]$", specials) == ["a", "z", "-"]
    assert found(r"^[\x61-\x62]$", specials) == ["a", "b"]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1))
def test_a_quoted_text_finds_itself(text: str) -> None:
    quoted = compile_java_pattern("^" + "".join(rf"\Q{each}\E" for each in re.split(r"(?<=\\)(?=E)", text)) + "$")
    assert quoted.search(text)
    assert not quoted.search(text + "x")


@given(st.text(string.printable, max_size=12))
def test_any_text_is_compiled_or_refused_by_one_kind_of_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        compile_java_pattern(text)
