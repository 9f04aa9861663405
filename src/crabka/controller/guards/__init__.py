"""What clients and other nodes need to be allowed before a controller answers them (Kafka's ControllerApis)."""
