"""The language server: what an editor asks of the compiler, the checker and the fixes while a profile is written."""
