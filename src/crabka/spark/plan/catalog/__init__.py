"""The segments that a tier has: from the metadata topic, from an exported file, or from a listing of the objects.

`segments` has the result, and the rule that says which offsets of a segment count. `cache_files` keeps what is known
between plans; its files are hints. `lost_segments` decides about segments that a listing shows as incomplete.
`segment_objects` reads the objects of a segment beside its batches, `timestamp_lookup` finds the offset of a time.
"""
