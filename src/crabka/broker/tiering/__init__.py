"""The broker's side of tiered storage (KIP-405): copying, retention, deletion and reading of remote segments."""
