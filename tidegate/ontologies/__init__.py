"""What terms mean: files of RDF are read and closed under OWL 2 RL, and then each relation of a term is a set of terms.

``current.load`` reads files and makes the ``Ontology`` of the process; compiling expressions asks it for terms. Knows
nothing of subscriptions.
"""
