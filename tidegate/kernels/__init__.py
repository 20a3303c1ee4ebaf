"""Loops over arrays, compiled by numba: arrays in, arrays out. Nothing here knows what a subscription is."""
