"""Breaking the code on purpose, to see that a test notices."""
