"""TODO-PACKAGE expire."""
