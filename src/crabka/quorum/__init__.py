"""The metadata quorum of a node: its log, its snapshots, and the driver that appends and applies records."""
