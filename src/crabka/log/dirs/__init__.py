"""TODO-PACKAGE dirs."""
