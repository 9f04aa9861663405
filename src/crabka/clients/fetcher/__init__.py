"""TODO-PACKAGE fetcher."""
