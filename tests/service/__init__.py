"""The service as its contract says it: an oracle in obvious loops, drawn scripts, and the comparison with a product."""
