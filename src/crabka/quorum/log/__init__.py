"""The files of `__cluster_metadata-0`: segments, indexes, epochs, and the note of the durable end."""
