"""What the tree may still have against its rules; `python -m tests.support.tidy --lower` lowers the numbers.

Keys: a class and its concrete base, a folder and its modules, a struct string of a file
format, an unwanted word and the tree in which it stands.
"""

from __future__ import annotations

INHERITANCE: dict[str, int] = {
    "LogCleaning(LogState)": 1,
    "LogCopying(LogDurability)": 1,
    "LogDurability(LogState)": 1,
    "LogHealing(LogState)": 1,
    "LogMoving(LogState)": 1,
    "LogReads(LogState)": 1,
    "LogShrinking(LogState)": 1,
    "LogTiering(LogDurability)": 1,
    "LogTiering(LogShrinking)": 1,
    "PartitionLog(LogCleaning)": 1,
    "PartitionLog(LogCopying)": 1,
    "PartitionLog(LogHealing)": 1,
    "PartitionLog(LogMoving)": 1,
    "PartitionLog(LogReads)": 1,
    "PartitionLog(LogTiering)": 1,
    "_JsonPrinter(_Printer)": 1,
    "_ValuePrinter(_Printer)": 1,
}

FORMATS: dict[str, int] = {}

WORDS: dict[str, int] = {
    "again and again in docs": 1,
    "again and again in src": 8,
    "again and again in tests": 14,
    "chance in docs": 4,
    "chance in src": 34,
    "chance in tests": 11,
    "eyes in src": 1,
    "eyes in tests": 6,
    "fate in src": 10,
    "fate in tests": 35,
    "forsaken in src": 18,
    "forsaken in tests": 13,
    "hears in docs": 8,
    "hears in src": 79,
    "hears in tests": 146,
    "last words in src": 6,
    "last words in tests": 5,
    "minds in src": 3,
    "nobody in docs": 19,
    "nobody in src": 199,
    "nobody in tests": 217,
    "somebody in docs": 6,
    "somebody in src": 38,
    "somebody in tests": 43,
    "tell in docs": 21,
    "tell in src": 268,
    "tell in tests": 196,
    "told in docs": 26,
    "told in src": 223,
    "told in tests": 673,
    "vouch in src": 2,
    "vouch in tests": 1,
    "who asks in src": 1,
    "who asks in tests": 10,
    "whoever in docs": 5,
    "whoever in src": 78,
    "whoever in tests": 35,
}
