"""The producer: batches, delivery with retries, and transactions.

`producer` is the API. `sender` delivers the batches that `record_buffer` and `accumulator` hold; `delivery` decides
what follows from an answer. `transactions` keeps the phase of a transaction, and `transaction_outcomes` the meaning of
its errors.
"""
