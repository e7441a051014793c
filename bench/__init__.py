"""How fast synthesis is and how much memory it takes, each measured against something on the same machine."""
