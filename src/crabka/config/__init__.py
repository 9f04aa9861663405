"""Settings: what exists, what it means, how it is parsed, layered and changed."""
