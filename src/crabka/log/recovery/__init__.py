"""TODO-PACKAGE recovery."""
