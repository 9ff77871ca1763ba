"""SQL with MATCH_RECOGNIZE, in any dialect that sqlglot reads: statement, clause, pattern, binder."""
