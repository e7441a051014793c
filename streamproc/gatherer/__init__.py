"""Gathering: from reports in one partition to exact tallies, one for each period."""
