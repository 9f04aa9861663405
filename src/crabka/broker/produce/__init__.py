"""TODO-PACKAGE produce."""
