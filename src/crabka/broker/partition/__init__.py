"""The partitions that a node hosts: appends, replicas, followers, and the requests that wait for them."""
