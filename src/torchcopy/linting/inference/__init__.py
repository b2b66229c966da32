"""What can be told of a source without running it: scopes, order of execution, kinds of values."""
