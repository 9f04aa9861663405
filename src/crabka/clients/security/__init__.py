"""TLS and SASL of the clients: the properties of Kafka's clients, certificates, and the SASL mechanisms.

`settings` reads the properties, and `security` makes them ready for use. `tls` and `sasl` (with `scram`) protect
connections.
"""
