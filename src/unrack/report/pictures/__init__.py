"""Pictures drawn by hand as SVG: a round, and servers on tiers of memory."""
