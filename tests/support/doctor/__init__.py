"""What tests of `crabka doctor` share."""
