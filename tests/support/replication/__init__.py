"""A model of replication: the real decisions on toy logs, with lost messages, crashes and stale nodes."""
