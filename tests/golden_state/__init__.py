"""State folders as each version of the state files wrote them, with what must come out of going on from them."""
