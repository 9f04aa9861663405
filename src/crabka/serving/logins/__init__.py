"""SASL on the connections of a node: frames pass a gate until their client has logged in."""
