"""Reads of what only the remote tier has: fetches, searches by time, and the state that followers begin with.

Read `reader` first, then `remote_log` (which segment holds an offset), `segment_read` (which bytes of it answer),
`segment_source` (chunks in memory or a file), `index_cache` and `chunk_cache`, and `read_ahead`. `remote_offsets`
answers ListOffsets, `follower_bootstrap` gives a follower its epochs and producers. `healing` has the checks of what
is read.

Invariants: a read never waits on the loop for a store; bytes are checked before they are served; memory, threads and
queued reads are bounded by settings.
"""
