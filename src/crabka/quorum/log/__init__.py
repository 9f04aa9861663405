"""TODO-PACKAGE log."""
