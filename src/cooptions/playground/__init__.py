"""A local page: drag a team, see its eigenfunctions answer, play its options, watch what it has learned."""
