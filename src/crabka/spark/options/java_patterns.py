r"""Regular expressions of Java (`java.util.regex.Pattern`) as those of Python, for `subscribePattern`.

The two differ in how they write the same things (`\z`, `\p{Alpha}`, `(?<name>…)`, `\Q…\E`), and some texts mean
something else in each. So every construct is read as Java reads it and written out for Python; what Python has no words
for is refused. Names of topics are ASCII without line breaks, and properties of characters are those of ASCII.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NoReturn

_ASCII: Final = [chr(code) for code in range(128)]
_QUANTIFIER: Final = re.compile(r"(?:[?*+]|\{[0-9]+(?:,[0-9]*)?\})[?+]?")
_FLAGS: Final = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_GROUP_NAME: Final = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY: Final = re.compile(r"\{(\w+)\}|([A-Z])", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})")
_OCTAL: Final = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
# Flags that say nothing about names in ASCII: lines that end by \n alone, and cases of other alphabets.
_IDLE_FLAGS: Final = "du"
_KEPT_FLAGS: Final = "ims"
_OPENINGS: Final = ("?:", "?=", "?!", "?<=", "?<!", "?>")
_ANCHORS: Final = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "Z": r"\Z"}
# What stands in brackets for Java's predefined sets, and for all characters outside of them where Python can say that.
_SETS: Final = {"d": r"\d", "s": r"\s", "w": r"\w", "h": r" \t", "v": r"\n\x0b\f\r"}
_OTHERS: Final = {r"\d": r"\D", r"\s": r"\S", r"\w": r"\W"}


def _body(belongs: Callable[[str], bool]) -> str:
    return "".join(re.escape(each) for each in _ASCII if belongs(each))


_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": re.escape(string.punctuation),
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r"\s",
    "IsAlphabetic": "a-zA-Z",
    "IsLetter": "a-zA-Z",
    "IsLatin": "a-zA-Z",
    "IsDigit": "0-9",
    "IsLowercase": "a-z",
    "IsUppercase": "A-Z",
}


@lru_cache(maxsize=64)
def compile_java_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that finds in the names of topics what Java would find. Raises ValueError that says why not."""
    translated = _Translation(text).run()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        # Its position would be one in the translation.
        raise ValueError(getattr(error, "msg", str(error))) from None


class _Translation:
    """Reads Java's text from left to right and writes Python's."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._written: list[str] = []
        self._group_count = 0
        # For each group that is open, and around all of them: the flags that were set inside of it.
        self._flags: list[list[str]] = [[]]

    def run(self) -> str:
        while self._at < len(self._text):
            self._construct()
        if len(self._flags) > 1:
            self._refuse("a group is not closed")
        self._write(")" * len(self._flags[0]))
        return "".join(self._written)

    def _construct(self) -> None:
        start = self._at
        match self._next():
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(":
                self._group()
            case ")":
                if len(self._flags) == 1:
                    self._refuse("a group is closed that was not opened")
                self._write(")" * (len(self._flags.pop()) + 1))
            case "|":
                # Flags reach into the other alternatives of their group.
                flags = self._flags[-1]
                self._write(")" * len(flags) + "|" + "".join(flags))
            case "?" | "*" | "+" | "{":
                self._at = start
                self._quantifier()
            case "." | "^" | "$" as plain:
                self._write(plain)
            case plain:
                self._write(re.escape(plain))

    def _quantifier(self) -> None:
        found = self._take(_QUANTIFIER)
        if found is None:
            self._refuse(r"{ begins no number of repetitions; \{ is the character")
        self._write(found[0])

    def _group(self) -> None:
        rest = self._text[self._at :]
        opening = next((each for each in _OPENINGS if rest.startswith(each)), None)
        if opening is not None:
            self._at += len(opening)
            self._open(f"({opening}")
        elif not rest.startswith("?"):
            self._group_count += 1
            self._open("(")
        elif rest.startswith("?<"):
            self._at += 1
            self._group_count += 1
            self._open(f"(?P<{self._group_name()}>")
        else:
            self._flag_group()

    def _flag_group(self) -> None:
        found = self._take(_FLAGS)
        if found is None:
            self._refuse(f"Java has no group that begins with ({self._text[self._at : self._at + 3]}")
        on, off = (self._known_flags(found[part] or "") for part in (1, 2))
        opening = f"(?{on}{'-' + off if off else ''}:"
        if found[3] == ":":
            self._open(opening)
        else:
            # Java's flags hold up to the end of the group around them, Python's only inside of one of their own.
            self._flags[-1].append(opening)
            self._write(opening)

    def _known_flags(self, flags: str) -> str:
        unknown = sorted(set(flags) - set(_IDLE_FLAGS + _KEPT_FLAGS))
        if unknown:
            self._refuse(f"the flag {unknown[0]} is not supported; {', '.join(_KEPT_FLAGS)} are")
        return "".join(dict.fromkeys(flag for flag in flags if flag in _KEPT_FLAGS))

    def _open(self, opening: str) -> None:
        self._flags.append([])
        self._write(opening)

    def _group_name(self) -> str:
        found = self._take(_GROUP_NAME)
        if found is None:
            self._refuse("the name of a group consists of letters and digits, in angle brackets")
        return found[1]

    def _escape(self) -> None:
        """Write what a backslash outside of brackets begins."""
        letter = self._peek()
        if letter == "Q":
            self._write("".join(map(re.escape, self._quoted())))
        elif letter in _ANCHORS:
            self._next()
            if letter == "b" and self._text.startswith("{g}", self._at):
                self._refuse(r"\b{g} is not supported")
            self._write(_ANCHORS[letter])
        elif letter == "k":
            self._next()
            self._write(f"(?P={self._group_name()})")
        elif letter.isascii() and letter.isdigit() and letter != "0":
            self._write(f"(?:\\{self._group_number()})")
        elif (found := self._set()) is not None:
            body, is_negated = found
            self._write(f"[{'^' if is_negated else ''}{body}]")
        else:
            self._write(re.escape(self._escaped_character()))

    def _group_number(self) -> int:
        """Return which group is meant: as many digits belong to the number as there are groups so far."""
        number = int(self._next())
        while self._peek().isdecimal() and number * 10 + int(self._peek()) <= self._group_count:
            number = number * 10 + int(self._next())
        return number

    def _set(self) -> tuple[str, bool] | None:
        """Return the set that an escape names, and whether all others are meant; None if it names no set."""
        letter = self._peek()
        if letter.lower() in _SETS:
            self._next()
            return _SETS[letter.lower()], letter.isupper()
        if letter not in ("p", "P"):
            return None
        self._next()
        found = self._take(_PROPERTY)
        if found is None:
            self._refuse(rf"\{letter} needs a property, such as \{letter}{{Alpha}}")
        return self._property(found[1] or found[2]), letter == "P"

    def _property(self, name: str) -> str:
        if name in _POSIX:
            return _POSIX[name]
        category = name.removeprefix("Is")
        # Letters of all cases have a name of their own.
        wanted = ("Lu", "Ll", "Lt") if category == "LC" else (category,)
        body = _body(lambda each: unicodedata.category(each).startswith(wanted)) if category else ""
        if not body:
            self._refuse(rf"\p{{{name}}} is not supported")
        return body

    def _escaped_character(self) -> str:
        """Return the character that the rest of an escape means."""
        for form, base in ((_HEXADECIMAL, 16), (_OCTAL, 8)):
            if (found := self._take(form)) is not None:
                code = int(next(group for group in found.groups() if group is not None), base)
                if code > 0x10FFFF:
                    self._refuse(f"there is no character {code:x}")
                return chr(code)
        letter = self._peek()
        if not letter:
            self._refuse("nothing follows the last backslash")
        if letter not in _CONTROL and letter.isascii() and letter.isalnum():
            self._refuse(rf"\{letter} is not supported")
        self._next()
        return _CONTROL.get(letter, letter)

    def _quoted(self) -> str:
        r"""Return what stands between \Q and \E; without \E it is all the rest."""
        start = self._at + 1
        end = self._text.find(r"\E", start)
        self._at = len(self._text) if end < 0 else end + 2
        return self._text[start : len(self._text) if end < 0 else end]

    def _class(self) -> None:
        """Write what stands in brackets; everything that Python could take for syntax is escaped."""
        is_negated = self._peek() == "^"
        if is_negated:
            self._next()
        body = ""
        while not (self._peek() == "]" and body):
            if not self._peek():
                self._refuse("a bracket is not closed")
            body += self._class_item()
        self._next()
        self._write(f"[{'^' if is_negated else ''}{body}]")

    def _class_item(self) -> str:
        """Return a character, a range of them or a set, as it stands in Python's brackets."""
        first, is_character = self._class_part()
        if not is_character:
            return first
        follower = self._text[self._at : self._at + 2]
        if not follower.startswith("-") or follower in ("-", "-]", "-["):
            return re.escape(first)
        self._next()
        last, is_character = self._class_part()
        if not is_character or last < first:
            self._refuse(f"a range in brackets that begins with {first} does not end with a character after it")
        return f"{re.escape(first)}-{re.escape(last)}"

    def _class_part(self) -> tuple[str, bool]:
        """Return a plain character and true, or what to write for several and false."""
        letter = self._next()
        if letter == "[":
            self._refuse(r"brackets inside of brackets are not supported: write one list (\[ is the character)")
        if letter == "&" and self._peek() == "&":
            self._refuse("&& in brackets is not supported: instead of [a-z&&[^b]] write (?!b)[a-z]")
        if letter != "\\":
            return letter, True
        if self._peek() == "Q":
            return "".join(map(re.escape, self._quoted())), False
        if (found := self._set()) is None:
            return self._escaped_character(), True
        body, is_negated = found
        if is_negated and body not in _OTHERS:
            self._refuse(r"\P, \H and \V in brackets are not supported: write (?:\P{Alpha}|x) instead of [\P{Alpha}x]")
        return _OTHERS[body] if is_negated else body, False

    def _take(self, form: re.Pattern[str]) -> re.Match[str] | None:
        found = form.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        letter = self._peek()
        self._at += 1
        return letter

    def _write(self, text: str) -> None:
        self._written.append(text)

    def _refuse(self, why: str) -> NoReturn:
        raise ValueError(why)
