"""TODO-PACKAGE admin."""
