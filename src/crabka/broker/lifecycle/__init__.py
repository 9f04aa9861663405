"""TODO-PACKAGE lifecycle."""
