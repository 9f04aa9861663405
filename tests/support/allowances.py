"""What the tree may still have against its rules; `python -m tests.support.tidy --lower` lowers the numbers.

Keys: a class and its concrete base, a folder and its modules, a struct string of a file
format, an unwanted word and the tree in which it stands.
"""

from __future__ import annotations

INHERITANCE: dict[str, int] = {
    "DelayedCommittedFetch(DelayedFetch)": 1,
    "DelayedDeletion(_DelayedByReplicas)": 1,
    "DelayedFetch(Delayed)": 1,
    "DelayedProduce(_DelayedByReplicas)": 1,
    "DelayedReplicaFetch(DelayedFetch)": 1,
    "LakeProgress(SyncListener)": 1,
    "LogCleaning(LogState)": 1,
    "LogCopying(LogDurability)": 1,
    "LogDurability(LogState)": 1,
    "LogHealing(LogState)": 1,
    "LogMoving(LogState)": 1,
    "LogReads(LogState)": 1,
    "LogShrinking(LogState)": 1,
    "LogTiering(LogDurability)": 1,
    "LogTiering(LogShrinking)": 1,
    "Partition(PartitionFollowers)": 1,
    "PartitionFollowers(PartitionReplicas)": 1,
    "PartitionLog(LogCleaning)": 1,
    "PartitionLog(LogCopying)": 1,
    "PartitionLog(LogHealing)": 1,
    "PartitionLog(LogMoving)": 1,
    "PartitionLog(LogReads)": 1,
    "PartitionLog(LogTiering)": 1,
    "_DelayedByReplicas(Delayed)": 1,
    "_JsonPrinter(_Printer)": 1,
    "_ValuePrinter(_Printer)": 1,
}

FORMATS: dict[str, int] = {}

WORDS: dict[str, int] = {
    "again and again in docs": 1,
    "again and again in src": 10,
    "again and again in tests": 15,
    "chance in docs": 4,
    "chance in src": 35,
    "chance in tests": 11,
    "eyes in src": 1,
    "eyes in tests": 6,
    "fate in src": 10,
    "fate in tests": 35,
    "forsaken in src": 18,
    "forsaken in tests": 13,
    "hears in docs": 8,
    "hears in src": 88,
    "hears in tests": 186,
    "last words in src": 9,
    "last words in tests": 8,
    "minds in src": 4,
    "minds in tests": 1,
    "nobody in docs": 24,
    "nobody in src": 207,
    "nobody in tests": 242,
    "somebody in docs": 6,
    "somebody in src": 40,
    "somebody in tests": 61,
    "tell in docs": 26,
    "tell in src": 299,
    "tell in tests": 233,
    "told in docs": 26,
    "told in src": 238,
    "told in tests": 781,
    "vouch in src": 2,
    "vouch in tests": 1,
    "who asks in src": 1,
    "who asks in tests": 10,
    "whoever in docs": 7,
    "whoever in src": 87,
    "whoever in tests": 36,
}
