"""What the tree may still have against its rules; `python -m tests.support.tidy --lower` lowers the numbers.

Keys: a class and its concrete base, a folder and its modules, a struct string of a file
format, an unwanted word and the tree in which it stands.
"""

from __future__ import annotations

INHERITANCE: dict[str, int] = {}

FOLDERS: dict[str, int] = {}

FORMATS: dict[str, int] = {}

WORDS: dict[str, int] = {}
