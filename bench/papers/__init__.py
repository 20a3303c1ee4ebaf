"""Experiments of the papers that Tidegate grew from, repeated: one folder per paper, each with its page and figures."""
