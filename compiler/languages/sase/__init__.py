"""SASE, the language of the papers: grammar, syntax tree, binder."""
