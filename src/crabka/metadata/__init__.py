"""Cluster metadata as Kafka's KIP-631 records, and the immutable image that they add up to. Pure.

`records` has the record types, `image` the whole image, and `topics`, `cluster`, `configs`, `features` and `security`
its parts, each with its changes. `delta` replays records on top of an image, `replay` handles metadata transactions,
`difference` compares two images. `requests` has the requests and results that brokers share with the controller,
`topic_names` the rules for names, `bootstrap` the records of a new cluster.

Invariants: an image never changes; replaying `to_records` of an image yields an equal image; a record that
contradicts the image raises CorruptDataError.
"""
