"""Shapes of series: normal forms, transforms, structures to find near ones, and shapes with names. Pure numerics."""
