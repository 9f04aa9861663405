"""Reading without groups: fetches of assigned partitions, isolation, offsets by time, ends of leader epochs."""
