"""Settings: their declarations, parsing, layers and changes.

`keys` and `validators` declare a setting, `properties` and `listeners` parse files and addresses. `settings` has
those of a node, `topic`, `group` and `client_metrics` those of other resources. `server` is the object that a node
reads, `resolve` the layers that DescribeConfigs reports, `alter` checks changes, `presets` has the properties of
local nodes.

Invariants: names, types, defaults and checks are Kafka's, or the name begins with `crabka.`; a setting without effect
is declared as such; settings that Crabka cannot honour without a loss of safety stop the start.
"""
