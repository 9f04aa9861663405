"""Log dirs of a broker: replica moves between them (KIP-113)."""
