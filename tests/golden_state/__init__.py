"""State folders as each version of the state files wrote them, with what came out of going on from them."""
