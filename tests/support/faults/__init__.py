"""Damage and malice: rot on disks and in tiers, kills, hostile requests and wild numbers."""
