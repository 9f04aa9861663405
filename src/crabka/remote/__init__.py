"""The remote tier (KIP-405): its data model, the two ports and their implementations.

Read `segments` (the values), `storage_manager` and `metadata_manager` (the ports) first. Metadata: `lifecycle` has
the legal steps, `epoch_index` finds a segment by epoch and offset, `metadata_cache` is the state of one partition,
and `inmemory` that of all. `removal_notice` announces that all segments of a partition are being removed. Storages:
`plugins` loads one by name from `backends`, `layout` has the places of objects and bytes, `listing` the objects of a
tier. `scrub` checks a whole tier.

Invariants: metadata is stored before the first byte of a segment, and dropped only after its last byte is deleted.
An id belongs to one content. A step may be repeated, and changes nothing then.
"""
