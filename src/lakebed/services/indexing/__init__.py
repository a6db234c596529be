"""Secondary indexes as a service: create, build, compact, drop; check and repair."""
