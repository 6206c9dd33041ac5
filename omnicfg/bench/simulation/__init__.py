"""Past one machine: what several replicas of a measured server would do with a trace of requests."""
