"""Severe weather: who should be told of a county's warning because the storm comes their way (Stevens 2009, §7.1)."""
