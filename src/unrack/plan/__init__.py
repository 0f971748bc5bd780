"""How much is needed: the cheapest of many systems that meets goals, and how sure that is."""
