"""A study on a real broker whose processes and broker are killed, stopped and doubled; then everything is checked."""
