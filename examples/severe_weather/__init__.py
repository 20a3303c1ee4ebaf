"""Severe weather: who should be told of a county's warning because the storm comes their way (seed 002, §7.1)."""
