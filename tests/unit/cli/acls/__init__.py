"""Tests of `crabka acls`."""
