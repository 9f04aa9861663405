"""Replicas of the metadata quorum: cores on a workbench, simulated controllers, images."""
