"""How fast a study is synthesized and gathered and how much memory that takes, against something on the same machine."""
