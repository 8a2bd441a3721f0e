"""A local page to drag a team, see its eigenfunctions, play its options, and watch what it has learned."""
