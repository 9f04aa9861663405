"""TODO-PACKAGE metadata."""
