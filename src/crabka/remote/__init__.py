"""The remote tier (KIP-405): its data model, the two ports and what implements them."""
