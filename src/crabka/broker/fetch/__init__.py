"""TODO-PACKAGE fetch."""
