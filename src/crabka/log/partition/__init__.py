"""TODO-PACKAGE partition."""
