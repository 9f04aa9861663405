"""TODO-PACKAGE security."""
