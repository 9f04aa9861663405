"""Members, transactions and answers for tests of group and transaction coordinators."""
