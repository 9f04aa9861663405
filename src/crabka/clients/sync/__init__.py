"""TODO-PACKAGE sync."""
