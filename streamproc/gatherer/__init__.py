"""Gathering: from the reports of one partition to its exact tallies, one for each period."""
