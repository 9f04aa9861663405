"""`crabka doctor`: `gathering` collects facts, `checks` are functions from facts to findings, `report` prints them."""
