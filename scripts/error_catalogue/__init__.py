"""The catalogue of errors about where something lies: found in sources, joined with decisions, shown on a page."""
