"""Our own: named result sets, short turns, whole answers with evidence."""
