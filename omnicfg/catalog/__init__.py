"""Access to the data that omnicfg ships: upstream's schema and topologies, vLLM's engine args, profiles, records."""
