"""TODO-PACKAGE snapshots."""
