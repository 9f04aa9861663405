"""The settings of a node, one module per subject, each with Kafka's name, type, default, check and text.

`table` joins them to one table, `derived` computes what follows from several, and `checks` refuses combinations that
Kafka refuses. Settings without effect are declared like all others and listed as such.
"""
