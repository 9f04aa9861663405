"""TODO-PACKAGE settings."""
