"""Servers and tools that several rooms' tests use."""
