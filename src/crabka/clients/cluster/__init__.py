"""The nodes of a cluster: connections, metadata, and requests to leaders and coordinators with retries.

`cluster` is the entry: it owns one `connection` per node and the view of `metadata`, which comes from brokers or from
controllers (`metadata_sources`). `leader_requests` and `coordinator_requests` send a request to the node that can
answer it, and retry while that node moves.
"""
