"""TODO-PACKAGE cleaner."""
