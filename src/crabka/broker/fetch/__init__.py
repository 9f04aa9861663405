"""Reads by consumers and followers: who fetches, incremental sessions, and the rows of an answer."""
