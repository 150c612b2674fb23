"""embedbench."""
