"""Shapes of series: normal forms, transforms, structures to find them in, and shapes with names. Pure numerics."""
