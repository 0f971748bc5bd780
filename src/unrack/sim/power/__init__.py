"""What nodes draw while a run goes on, and nodes that are switched off and on."""
