"""The transaction coordinator: who writes under which epoch, and how transactions end (KIP-98, KIP-890)."""
