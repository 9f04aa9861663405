"""`crabka acls`: permissions of users."""
