"""TODO-PACKAGE healing."""
