"""Consumer groups and the offsets that they have committed."""
