"""`ssl.principal.mapping.rules`, with the examples of Kafka's documentation."""

from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.security.tls.principal_mapping import PrincipalMapping

KAFKAS = ", ".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=alice,O=M", "CN=alice,O=M"),
        (KAFKAS, "CN=kafka1,OU=ServiceUsers,O=Org,C=DE", "kafka1"),
        (KAFKAS, "CN=Admin,OU=Ops,O=Org,L=B,ST=B,C=DE", "admin@ops"),
        (KAFKAS, "OU=x,CN=Duke.Java", "duke.java"),
        (KAFKAS, "O=only", "O=only"),
        ("RULE:^CN=(.*?),.*$/$1/U", "CN=alice,O=M", "ALICE"),
        (r"RULE:^CN=([^,]+).*$/team\/$1/", "CN=alice,O=M", "team/alice"),
        (r"RULE:^CN=([^,]+).*$/\$1/", "CN=alice", "$1"),
        ("RULE:^CN=([^,]+)(x)?.*$/$1$2/", "CN=alice", "alice"),
        ("RULE:^CN=another$/x/", "CN=alice", None),
        # The pattern has to match wholly.
        ("RULE:CN=ali/x/,DEFAULT", "CN=alice", "CN=alice"),
    ],
)
def test_first_rule_that_applies(rules: str, subject: str, name: str | None) -> None:
    assert PrincipalMapping(rules).name_of(subject) == name


@pytest.mark.parametrize(
    "rules",
    ["RULE:", "RULE:a", "RULE:a/b", "RULE:a/b/X", "default", "DEFAULT,RULE:(/b/", "RULE:a/$1/", "RULE:(a)/$2/", "CN=x"],
)
def test_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
