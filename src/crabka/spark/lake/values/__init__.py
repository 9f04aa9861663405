"""Values of records as columns: raw, JSON or Avro, and the rows of a table that they become.

Arrow in, Arrow out; no table and no cluster is known here. `schemas` has the columns of a table and how they may grow,
`value_modes` the contract of a decoder, `rows` the whole row. A value that cannot be read is a row of dead letters with
the reason; it never fails the batch that it is in.
"""
