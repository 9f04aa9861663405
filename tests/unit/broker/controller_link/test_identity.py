"""Who a broker is."""

from __future__ import annotations

from crabka.broker.controller_link.identity import NOT_REGISTERED, BrokerIdentity


def test_a_broker_has_no_epoch_before_it_is_registered() -> None:
    identity = BrokerIdentity(3)
    assert (identity.node_id, identity.broker_epoch) == (3, NOT_REGISTERED)
    identity.broker_epoch = 17
    assert identity == BrokerIdentity(3, 17)
