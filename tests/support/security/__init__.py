"""What tests of permissions share."""
