"""The members of a cluster: brokers, the quorum, and `crabka cluster`, a cluster of processes on this machine."""
