"""Compaction: finds the dirtiest compacted log, copies what is still needed, and swaps the result in."""
