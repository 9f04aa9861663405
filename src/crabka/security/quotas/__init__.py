"""How much a client may use: the bound that applies to it, what it used lately, and how long it has to wait. PURE.

`table` finds the quota of a user and a client id, `windows` measures a rate as Kafka's metrics do, `usage` keeps the
rates of many clients and computes waits, `token_bucket` is the budget of changes to topics (KIP-599).
"""
