"""Builders of the documents that are made from the code, one module per page."""
