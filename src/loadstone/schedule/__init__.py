"""When to send: arrival processes, drawn before the run as absolute offsets from its start."""

from loadstone.schedule.choose import arrivals

__all__ = ["arrivals"]
