"""TODO-PACKAGE controller_link."""
