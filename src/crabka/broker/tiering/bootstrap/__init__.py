"""TODO-PACKAGE bootstrap."""
