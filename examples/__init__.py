"""Case studies: each a script that runs, with a test and a page in docs."""
