"""Operations that a client may perform on a resource, as answers report them (KIP-430)."""

from __future__ import annotations

# Bit sets of AclOperation codes. Without an authorizer every operation of the resource is allowed.
UNASKED_OPERATIONS = -(2**31)
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12
TOPIC_OPERATIONS = sum(
    1 << bit for bit in (_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
)
GROUP_OPERATIONS = sum(1 << bit for bit in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS))
CLUSTER_OPERATIONS = sum(
    1 << bit
    for bit in (_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE)
)
