"""One segment and its files: the `.log` file, its offset, time and transaction index, and the descriptors it holds.

Read `segment` first, then `indexes` and the three index modules, `segments` (all of a log in order), `swap` (how a
cleaned segment replaces others), `scan` and `batch_walk` (reading all batches, trusted and untrusted).
`open_segments`, `descriptors`, `descriptor_keeper` and `caches` bound what is open and loaded.

Invariants: the `.log` file is the truth, and indexes can be rebuilt from it; an index entry never points past the end
of its segment; an active segment gives up its descriptor only after a sync.
"""
