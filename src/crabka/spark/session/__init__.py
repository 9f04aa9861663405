"""The Spark session of jobs, and what surrounds it: Java, its log, the code that workers need, and one-line errors.

`job_session` is the entry. `row_tasks` is the shape of the tasks of most jobs.
"""
