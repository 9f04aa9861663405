"""The objects of a segment beside its batches, fetched and parsed for plans."""
