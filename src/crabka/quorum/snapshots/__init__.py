"""Snapshots of the metadata log: their files, when they are written, and what damaged ones become."""
