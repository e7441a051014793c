"""Marked people, symbols and counts are planted, and everything that anybody gets to see is searched for them."""
