"""What the tree may still have against its rules; `python -m tests.support.tidy --lower` lowers the numbers.

Keys: a class and its concrete base, a folder and its modules, a struct string of a file
format, an unwanted word and the tree in which it stands.
"""

from __future__ import annotations

INHERITANCE: dict[str, int] = {}

FORMATS: dict[str, int] = {}

WORDS: dict[str, int] = {
    "again and again in docs": 1,
    "again and again in src": 7,
    "again and again in tests": 14,
    "chance in docs": 2,
    "chance in src": 4,
    "chance in tests": 6,
    "eyes in tests": 6,
    "fate in src": 10,
    "fate in tests": 35,
    "forsaken in src": 18,
    "forsaken in tests": 13,
    "hears in docs": 8,
    "hears in src": 69,
    "hears in tests": 146,
    "last words in src": 6,
    "last words in tests": 5,
    "minds in src": 3,
    "nobody in docs": 19,
    "nobody in src": 180,
    "nobody in tests": 217,
    "somebody in docs": 6,
    "somebody in src": 35,
    "somebody in tests": 43,
    "tell in docs": 21,
    "tell in src": 239,
    "tell in tests": 194,
    "told in docs": 26,
    "told in src": 214,
    "told in tests": 672,
    "vouch in src": 2,
    "vouch in tests": 1,
    "who asks in src": 1,
    "who asks in tests": 10,
    "whoever in docs": 5,
    "whoever in src": 66,
    "whoever in tests": 35,
}
